package main

import "testing"

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"read": "read", "\nnaïve 😀\t": "naïve 😀", "a\nb\tc": "a b c", "a\x1b[2J": "a [2J", "\u202ea\u0085b": "a b",
		"0123456789": "0123456789", "01234567890": "012345678…",
	} {
		if got := oneLine(text, 10); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := tally(map[string]int64{"timeout": 2, "a\x1b[2J": 1}); got != "1x a [2J, 2x timeout" {
		t.Errorf("tally: %q", got)
	}
}
