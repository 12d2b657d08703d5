// Package terminaltext makes text of somebody else safe to print on a terminal. A name such
// as "a\x1b[2J" would clear the screen, a line break would forge a line of output, and the
// bidirectional control U+202E would show the name "\u202etxt.exe" as exe.txt.
//
// What [strconv.IsPrint] accepts stays as it is: letters, marks, numbers, punctuation, symbols
// and the ASCII space. Each invalid byte of UTF-8 becomes U+FFFD.
package terminaltext

import (
	"strconv"
	"strings"
	"unicode"
)

// Line returns text on one line. A character that cannot be printed, line breaks and tabs
// included, becomes its escape in Go: \x1b, \n, \u202e. A backslash stays as it is, so two
// texts may give the same line.
func Line(text string) string {
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Lines returns text with its line feeds and tabs. Every other character that cannot be
// printed, carriage returns included, becomes U+FFFD.
func Lines(text string) string {
	return strings.Map(func(r rune) rune {
		if hidden(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func hidden(r rune) bool { return !strconv.IsPrint(r) }
