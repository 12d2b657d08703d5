// Package storedkey holds the rule that the keys of pkg/memory and pkg/replay have in common.
package storedkey

import (
	"fmt"
	"unicode/utf8"
)

// Fault says why key cannot be stored: it is empty, longer than maxBytes, or not UTF-8, which
// no string of a message may be. It is empty for a good key.
func Fault(key string, maxBytes int) string {
	switch {
	case key == "":
		return "it is empty"
	case len(key) > maxBytes:
		return fmt.Sprintf("it has %d bytes, the cap is %d", len(key), maxBytes)
	case !utf8.ValidString(key):
		return fmt.Sprintf("%q is not UTF-8", key)
	}
	return ""
}
