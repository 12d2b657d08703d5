package canonjson

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

func isCanonical(token string) bool {
	n, ok := jsontoken.ScanNumber(token)
	return ok && isCanonicalFloat(token, n)
}

// A float that isCanonicalFloat accepts is exactly what appendFloat would write.
func TestIsCanonicalFloat(t *testing.T) {
	for token, want := range map[string]bool{
		"0.0": true, "-0.0": true, "0.5": true, "-1.25": true, "10.0": true, "0.0001": true, "1.00001": true,
		"-10.00001": true, "123456789012.345": true,
		"0.00001": false, "-0.00001": false, "1.50": false, "1.00": false, "1e2": false, "1.5E2": false,
		"0.12345678901234567": false, "9007199254740993.0": false,
	} {
		if got := isCanonical(token); got != want {
			t.Errorf("isCanonicalFloat(%s) = %v, want %v", token, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.StringMatching(`-?(0|[1-9][0-9]{0,9})\.0{0,5}[0-9]{1,9}`).Draw(t, "token")
		f, err := strconv.ParseFloat(token, 64)
		if err != nil {
			t.Fatal(err)
		}
		if long := string(appendFloat(nil, f, 64)); isCanonical(token) && long != token {
			t.Errorf("%s is written %s", token, long)
		}
	})
}
