package intent_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/intent"
)

func TestParseKeyring(t *testing.T) {
	const one, two = "b25l", "dHdv" // "one", "two"
	for name, tt := range map[string]struct {
		text string
		ids  map[string]string // the id and its key
		none []string
	}{
		"one":                 {"k1=" + one, map[string]string{"k1": "one"}, []string{"k2", "", "K1"}},
		"comments and blanks": {"\n# k0=" + two + "\n  \n\tk1=" + one + "  \r\n\n", map[string]string{"k1": "one"}, []string{"# k0", "k0"}},
		"an id with spaces":   {"my key 1=" + one, map[string]string{"my key 1": "one"}, []string{"my"}},
		"an id not ASCII":     {"schlüssel-鍵=" + one, map[string]string{"schlüssel-鍵": "one"}, nil},
		"a later duplicate":   {"k1=" + one + "\nk2=" + one + "\nk1=" + two, map[string]string{"k1": "two", "k2": "one"}, nil},
		"padding":             {"k1=b25lMQ==", map[string]string{"k1": "one1"}, nil},
		"spaces before an =":  {"k1 =" + one, map[string]string{"k1 ": "one"}, []string{"k1"}},
		"a # in an id":        {"k#1=" + one, map[string]string{"k#1": "one"}, nil},
		"a long key":          {"k1=" + base64.StdEncoding.EncodeToString(make([]byte, 1000)), map[string]string{"k1": string(make([]byte, 1000))}, nil},
		"a key of one byte":   {"k1=AA==", map[string]string{"k1": "\x00"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := intent.ParseKeyring(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			for id, key := range tt.ids {
				in := full()
				signed := sign(t, signer(t, ring, id), in)
				if signed.SigningKeyId != id {
					t.Errorf("signed with %q, want %q", signed.SigningKeyId, id)
				}
				if got := keyring(t, id, key).Verify(signed); got != intent.OK {
					t.Errorf("key %q is another one: %s", id, got)
				}
				if got := ring.Verify(decode(t, encode(t, signed))); got != intent.OK {
					t.Errorf("Verify = %s", got)
				}
			}
			for _, id := range tt.none {
				if _, err := intent.NewSigner(ring, id); !errors.Is(err, intent.ErrUnknownKey) {
					t.Errorf("NewSigner(%q): %v, want ErrUnknownKey", id, err)
				}
			}
		})
	}
}

func TestParseKeyringRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		want string
	}{
		"nothing":          {"", "no key"},
		"comments only":    {"# a\n\n", "no key"},
		"no =":             {"k1=b25l\n\nc2VjcmV0", "line 3: not of the form"},
		"no id":            {"=b25l", "line 1: not of the form"},
		"an empty key":     {"k1=", "line 1: the key is empty"},
		"replaced later":   {"k1=\nk1=b25l", "line 1: the key is empty"},
		"no padding":       {"k1=b25lMQ", "line 1: the key is not standard base64"},
		"too much padding": {"k1=b25l=", "line 1: the key is not standard base64"},
		"URL alphabet":     {"# x\nk1=-_-_", "line 2: the key is not standard base64"},
		"a space":          {"k1= b25l", "line 1: the key is not standard base64"},
		"a CR inside":      {"k1=b2\r5l", "line 1: the key is not standard base64"},
		"loose bits":       {"k1=b25lMR==", "line 1: the key is not standard base64"},
		"id not UTF-8":     {"\xff=b25l", "line 1: the id is not UTF-8"},
		"too long":         {strings.Repeat("#\n", 1<<20), "longer than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := intent.ParseKeyring(tt.text)
			if ring != nil || !errors.Is(err, intent.ErrKeyring) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("ParseKeyring = %v, %v; want an error with %q", ring, err, tt.want)
			}
		})
	}
}

func TestLoadKeyring(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("BEAMAGENTS_TEST_KEYS", " k1=b25l\n")
	t.Setenv("BEAMAGENTS_TEST_EMPTY", "")
	for _, ref := range []string{"env:BEAMAGENTS_TEST_KEYS", "file:" + write("a ring:1", "\n\nk1=b25l\n\n")} {
		ring, err := intent.LoadKeyring(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := keyring(t, "k1", "one").Verify(sign(t, signer(t, ring, "k1"), full())); got != intent.OK {
			t.Errorf("%s holds another key", ref)
		}
	}
	for name, tt := range map[string]struct {
		ref  string
		want string
		is   error
	}{
		"empty":            {"", "neither", nil},
		"no scheme":        {"BEAMAGENTS_TEST_KEYS", "neither", nil},
		"another scheme":   {"vault:x", "neither", nil},
		"capitals":         {"ENV:BEAMAGENTS_TEST_KEYS", "neither", nil},
		"no variable":      {"env:", "names nothing", nil},
		"no path":          {"file: ", "names nothing", nil},
		"variable not set": {"env:BEAMAGENTS_TEST_NOTHING", `"BEAMAGENTS_TEST_NOTHING" is not set`, nil},
		"variable empty":   {"env:BEAMAGENTS_TEST_EMPTY", "no key", nil},
		"missing file":     {"file:" + filepath.Join(dir, "missing"), "missing", fs.ErrNotExist},
		"folder":           {"file:" + dir, dir, nil},
		"file without key": {"file:" + write("blank", "# nothing\n"), "no key", nil},
		"too long":         {"file:" + write("long", strings.Repeat("#\n", 1<<20)), "longer than", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := intent.LoadKeyring(tt.ref)
			if ring != nil || !errors.Is(err, intent.ErrKeyring) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("LoadKeyring = %v, %v; want an error with %q", ring, err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) {
				t.Errorf("LoadKeyring: %v, want %v", err, tt.is)
			}
		})
	}
}

func TestCheckReference(t *testing.T) {
	for _, ref := range []string{"env:NOT_SET_ANYWHERE", "file:/no/such/file", "file:a b:c", "file:name"} {
		if err := intent.CheckReference(ref); err != nil {
			t.Errorf("%q: %v", ref, err)
		}
	}
	for _, ref := range []string{"", "KEYS", "vault:x", "ENV:X", "File:/x", "env:", "file:", "file: ", "env:k1=b25l", "env:A\nB", "k1=b25l"} {
		err := intent.CheckReference(ref)
		if !errors.Is(err, intent.ErrKeyring) || strings.Contains(err.Error(), "b25l") {
			t.Errorf("%q: %v", ref, err)
		}
		if _, loaded := intent.LoadKeyring(ref); loaded == nil || loaded.Error() != err.Error() {
			t.Errorf("%q: LoadKeyring says %v, CheckReference %v", ref, loaded, err)
		}
	}
}
