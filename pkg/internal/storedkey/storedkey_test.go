package storedkey_test

import (
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/internal/storedkey"
)

func TestFault(t *testing.T) {
	for key, want := range map[string]string{
		"a":                       "",
		"\x00":                    "",
		strings.Repeat("é", 4):    "",
		"":                        "it is empty",
		strings.Repeat("é", 5):    "it has 10 bytes, the cap is 8",
		"a\xff":                   `"a\xff" is not UTF-8`,
		strings.Repeat("\xff", 9): "it has 9 bytes, the cap is 8",
	} {
		if got := storedkey.Fault(key, 8); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}
