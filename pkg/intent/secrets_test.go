package intent_test

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/intent"
)

// secret is a key that does not turn up by chance: 32 bytes, all of two digits in
// decimal.
var secret = []byte("QZXJKVWYQJXZVKWYJQXKZWVYQKXJZWYV")

// needles are the ways in which a printer might show the first bytes of secret.
func needles() map[string]string {
	part := secret[:6]
	join := func(format, sep string) string {
		var words []string
		for _, b := range part {
			words = append(words, fmt.Sprintf(format, b))
		}
		return strings.Join(words, sep)
	}
	return map[string]string{
		"raw":             string(part),
		"hex":             hex.EncodeToString(part),
		"HEX":             strings.ToUpper(hex.EncodeToString(part)),
		"base64":          base64.StdEncoding.EncodeToString(part),
		"decimal":         join("%d", " "),
		"decimal, commas": join("%d", ","),
		"hex words":       join("0x%x", ", "),
		"hex spaced":      join("%x", " "),
		"HEX spaced":      join("%X", " "),
		"hex marked":      join("0x%x", " "),
		"octal":           join("%o", " "),
		"binary":          join("%b", " "),
		"characters":      join("%c", " "),
		"quoted":          join("%q", " "),
		"code points":     join("%U", " "),
	}
}

func search(t *testing.T, where, text string) {
	t.Helper()
	for name, needle := range needles() {
		if strings.Contains(text, needle) {
			t.Errorf("%s shows the key (%s): %.200s", where, name, text)
		}
	}
}

// A needle that is never found proves nothing.
func TestSecretsAreFoundWhereTheyAre(t *testing.T) {
	for name, format := range map[string]string{
		"raw": "%s", "hex": "%x", "HEX": "%X", "decimal": "%v", "hex words": "%#v", "hex spaced": "% x",
		"HEX spaced": "% X", "octal": "%o", "binary": "%b", "characters": "%c", "code points": "%U",
	} {
		if text := fmt.Sprintf(format, secret); !strings.Contains(text, needles()[name]) {
			t.Errorf("%s does not find %s", name, text)
		}
	}
	if text := base64.StdEncoding.EncodeToString(secret); !strings.Contains(text, needles()["base64"]) {
		t.Errorf("base64 does not find %s", text)
	}
	type holder struct{ key *[]byte }
	if !reaches(reflect.ValueOf(&holder{&secret}), secret[:6]) {
		t.Error("reaches does not find a key behind a pointer in an unexported field")
	}
}

// secretHolders are values of all types that have to do with a key, as other
// programs would hold them.
func secretHolders(t *testing.T) map[string]any {
	ring := keyring(t, "k1", string(secret))
	s := signer(t, ring, "k1")
	signed := sign(t, s, full()) // the key has been used
	if got := ring.Verify(signed); got != intent.OK {
		t.Fatal(got)
	}
	type exported struct {
		Ring    intent.Keyring
		Pointer *intent.Keyring
		Signer  intent.Signer
		Any     any
	}
	type unexported struct {
		ring    intent.Keyring
		pointer *intent.Keyring
		signer  intent.Signer
		any     any
	}
	return map[string]any{
		"keyring":         ring,
		"keyring value":   *ring,
		"signer":          s,
		"signer value":    *s,
		"exported":        exported{*ring, ring, *s, s},
		"exported ptr":    &exported{*ring, ring, *s, ring},
		"unexported":      unexported{*ring, ring, *s, s},
		"unexported ptr":  &unexported{*ring, ring, *s, *s},
		"slice":           []*intent.Keyring{ring},
		"slice of values": []intent.Signer{*s},
		"map":             map[string]intent.Keyring{"a": *ring},
		"signed intent":   signed,
		"method":          ring.Verify,
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	for name, v := range secretHolders(t) {
		t.Run(name, func(t *testing.T) {
			for verb := 'A'; verb <= 'z'; verb++ {
				for _, flags := range []string{"", "+", "#", " ", "-", "0", "+#", "# ", "200"} {
					format := "%" + flags + string(verb)
					search(t, format, fmt.Sprintf(format, v))
				}
			}
			if text, err := json.Marshal(v); err == nil {
				search(t, "JSON", string(text))
			}
			if text, err := xml.Marshal(v); err == nil {
				search(t, "XML", string(text))
			}
			var out bytes.Buffer
			_ = gob.NewEncoder(&out).Encode(v)
			slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
			slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
			search(t, "gob and log", out.String())
			if reaches(reflect.ValueOf(v), secret[:6]) {
				t.Error("reflection reaches the key")
			}
		})
	}
}

// reaches reports whether reflection, which reads unexported fields too, comes
// from v to bytes that hold needle. It is what every printer could find.
func reaches(v reflect.Value, needle []byte) bool {
	seen := make(map[uintptr]bool)
	var walk func(v reflect.Value) bool
	walk = func(v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Pointer:
			if v.IsNil() || seen[v.Pointer()] {
				return false
			}
			seen[v.Pointer()] = true
			return walk(v.Elem())
		case reflect.Interface:
			return !v.IsNil() && walk(v.Elem())
		case reflect.Struct:
			for _, field := range v.Fields() {
				if walk(field) {
					return true
				}
			}
		case reflect.Map:
			for k := v.MapRange(); k.Next(); {
				if walk(k.Key()) || walk(k.Value()) {
					return true
				}
			}
		case reflect.String:
			return bytes.Contains([]byte(v.String()), needle)
		case reflect.Slice, reflect.Array:
			if v.Type().Elem().Kind() == reflect.Uint8 {
				b := make([]byte, v.Len())
				for i := range b {
					b[i] = byte(v.Index(i).Uint())
				}
				return bytes.Contains(b, needle)
			}
			for i := range v.Len() {
				if walk(v.Index(i)) {
					return true
				}
			}
		}
		return false
	}
	return walk(v)
}

// No error shows a line of a keyring, or a keyring that was given in place of a reference.
func TestSecretsAreNotInErrors(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString(secret)
	path := filepath.Join(t.TempDir(), "ring")
	ring := keyring(t, "k1", string(secret))
	var errs []error
	for _, text := range []string{
		encoded,
		"k1=" + encoded + "\nk2=" + encoded[1:],
		"k1=" + encoded + "=",
		"k1=" + string(secret) + "!",
		string(secret) + "\xff=" + encoded,
		string(secret) + "\tx=" + encoded,
		"\ufeff\ufeff" + string(secret) + "=" + encoded,
		"=" + encoded,
		"\n" + string(secret),
	} {
		_, err := intent.ParseKeyring(text)
		errs = append(errs, err)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err = intent.LoadKeyring("file:" + path)
		errs = append(errs, err)
		t.Setenv("BEAMAGENTS_TEST_KEYS", strings.ReplaceAll(text, "\x00", ""))
		_, err = intent.LoadKeyring("env:BEAMAGENTS_TEST_KEYS")
		errs = append(errs, err)
	}
	unpadded := strings.TrimRight(encoded, "=")
	for _, wrong := range []string{
		"k1=" + encoded, encoded, unpadded, "k1:" + encoded, string(secret), "k1=" + encoded + "\nk2=" + encoded,
	} {
		for _, scheme := range []string{"", "env:", "file:", "vault:", "ENV:", "env: ", "file: ", "file:./"} {
			_, err := intent.LoadKeyring(scheme + wrong)
			errs = append(errs, err)
			err = intent.CheckReference(scheme + wrong)
			if err == nil && scheme == "env:" && (wrong == unpadded || wrong == string(secret)) {
				continue // could be the name of a variable
			}
			errs = append(errs, err)
		}
	}
	for _, id := range []string{"k1=" + encoded, encoded, unpadded + "\n"} {
		_, err := intent.NewSigner(ring, id)
		errs = append(errs, err)
	}
	_, err := intent.NewSigner(ring, "k2")
	errs = append(errs, err)
	_, err = new(intent.Signer).Sign(full())
	errs = append(errs, err)
	_, err = signer(t, ring, "k1").Sign(nil)
	errs = append(errs, err)
	for _, err := range errs {
		if err == nil {
			t.Fatal("no error")
		}
		for ; err != nil; err = errors.Unwrap(err) {
			for _, format := range []string{"%v", "%+v", "%#v", "%q"} {
				search(t, "error "+format, fmt.Sprintf(format, err))
			}
			if reaches(reflect.ValueOf(err), secret[:6]) {
				t.Errorf("reflection reaches the key from %v", err)
			}
		}
	}
}
