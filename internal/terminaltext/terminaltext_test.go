package terminaltext_test

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

func TestTexts(t *testing.T) {
	for _, tt := range []struct{ name, text, line, lines string }{
		{"empty", "", "", ""},
		{"ASCII", `orders "west" it's 5 \n`, `orders "west" it's 5 \n`, `orders "west" it's 5 \n`},
		{"letters", "Zoë 注文 עברית 😀", "Zoë 注文 עברית 😀", "Zoë 注文 עברית 😀"},
		{"combining mark", "e\u0301", "e\u0301", "e\u0301"},
		{"escape sequence", "a\x1b[2J", `a\x1b[2J`, "a\ufffd[2J"},
		{"title of the window", "\x1b]0;x\x07", `\x1b]0;x\a`, "\ufffd]0;x\ufffd"},
		{"control of one byte in Latin-1", "\u009b31m", `\u009b31m`, "\ufffd31m"},
		{"NUL and DEL", "\x00\x7f", `\x00\x7f`, "\ufffd\ufffd"},
		{"backspace", "ab\b", `ab\b`, "ab\ufffd"},
		{"line feed and tab", "a\n\tb", `a\n\tb`, "a\n\tb"},
		{"carriage return", "a\r\nb", `a\r\nb`, "a\ufffd\nb"},
		{"vertical tab and form feed", "\v\f", `\v\f`, "\ufffd\ufffd"},
		{"line and paragraph separator", "\u2028\u2029", `\u2028\u2029`, "\ufffd\ufffd"},
		{"bidi override", "\u202egpj.exe", `\u202egpj.exe`, "\ufffdgpj.exe"},
		{"bidi isolate", "\u2066a\u2069", `\u2066a\u2069`, "\ufffda\ufffd"},
		{"bidi marks", "\u200e\u200f\u061c", `\u200e\u200f\u061c`, "\ufffd\ufffd\ufffd"},
		{"zero width", "\u200b\ufeff", `\u200b\ufeff`, "\ufffd\ufffd"},
		{"other spaces", "\u00a0\u3000", `\u00a0\u3000`, "\ufffd\ufffd"},
		{"tag character", "\U000e0041", `\U000e0041`, "\ufffd"},
		{"invalid UTF-8", "a\xff\xc3b", "a\ufffd\ufffdb", "a\ufffd\ufffdb"},
		{"surrogate as bytes", "\xed\xa0\x80", "\ufffd\ufffd\ufffd", "\ufffd\ufffd\ufffd"},
	} {
		if got := terminaltext.Line(tt.text); got != tt.line {
			t.Errorf("%s: Line gives %q, want %q", tt.name, got, tt.line)
		}
		if got := terminaltext.Lines(tt.text); got != tt.lines {
			t.Errorf("%s: Lines gives %q, want %q", tt.name, got, tt.lines)
		}
	}
}

// Whatever the text holds, what comes out can be printed, and comes out again unchanged.
func TestEverythingCanBePrinted(t *testing.T) {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "text")
		line, lines := terminaltext.Line(text), terminaltext.Lines(text)
		if !utf8.ValidString(line) || strings.ContainsFunc(line, hidden) || terminaltext.Line(line) != line {
			t.Fatalf("Line(%q) = %q", text, line)
		}
		if !utf8.ValidString(lines) || strings.ContainsFunc(strings.NewReplacer("\n", "", "\t", "").Replace(lines), hidden) || terminaltext.Lines(lines) != lines {
			t.Fatalf("Lines(%q) = %q", text, lines)
		}
	})
}
