package intent_test

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/intent"
)

// keyOne and keyTwo in base64.
const one, two = "b25lLCBvZiAxNiBieXRlcw==", "dHdvLCBvZiAxNiBieXRlcw=="

func TestParseKeyring(t *testing.T) {
	for name, tt := range map[string]struct {
		text string
		ids  map[string]string // the id and its key
		none []string
	}{
		"one":                 {"k1=" + one, map[string]string{"k1": keyOne}, []string{"k2", "", "K1", " k1", "k1 "}},
		"comments and blanks": {"\n# k0=" + two + "\n  \n\tk1=" + one + "  \r\n\n", map[string]string{"k1": keyOne}, []string{"# k0", "k0"}},
		"an id with spaces":   {"my key 1=" + one, map[string]string{"my key 1": keyOne}, []string{"my"}},
		"an id not ASCII":     {"schlüssel-鍵=" + one, map[string]string{"schlüssel-鍵": keyOne}, nil},
		"a later duplicate":   {"k1=" + one + "\nk2=" + one + "\nk1=" + two, map[string]string{"k1": keyTwo, "k2": keyOne}, nil},
		"no padding needed":   {"k1=b25lLCBvZiAxOCBieXRlcy4u", map[string]string{"k1": "one, of 18 bytes.."}, nil},
		"one padding":         {"k1=b25lLCBvZiAxNyBieXRlcy4=", map[string]string{"k1": "one, of 17 bytes."}, nil},
		"a space before an =": {"k1 =" + one, map[string]string{"k1": keyOne}, []string{"k1 "}},
		"a space behind an =": {"k1= " + one, map[string]string{"k1": keyOne}, nil},
		"space everywhere":    {" \tk1\u00a0\t = \u2003 " + one + "\u3000\r\n", map[string]string{"k1": keyOne}, nil},
		"equal when trimmed":  {"k1 =" + one + "\n k1=" + two, map[string]string{"k1": keyTwo}, nil},
		"a # in an id":        {"k#1=" + one, map[string]string{"k#1": keyOne}, nil},
		"a long key":          {"k1=" + base64.StdEncoding.EncodeToString(make([]byte, 1000)), map[string]string{"k1": string(make([]byte, 1000))}, nil},
		"a byte order mark":   {"\ufeffk1=" + one + "\nk2=" + two, map[string]string{"k1": keyOne, "k2": keyTwo}, []string{"\ufeffk1"}},
		"a mark, a comment":   {"\ufeff# keys\r\nk1=" + one, map[string]string{"k1": keyOne}, []string{"\ufeff# keys"}},
		"wide white space":    {"\u3000k1=" + one + "\u00a0\u2028\n\u0085\v\f k2=" + two + "\u2003", map[string]string{"k1": keyOne, "k2": keyTwo}, []string{"\u3000k1"}},
		"space inside an id":  {"k\u00a01=" + one, map[string]string{"k\u00a01": keyOne}, nil},
		"a key of 16 bytes":   {"k1=AAAAAAAAAAAAAAAAAAAAAA==", map[string]string{"k1": string(make([]byte, 16))}, nil},
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
		"no =":             {"k1=" + one + "\n\nc2VjcmV0", "line 3: not of the form"},
		"no id":            {"=" + one, "line 1: not of the form"},
		"only space":       {" =" + one, "line 1: not of the form"},
		"an empty key":     {"k1= ", "line 1: the key has 0 bytes, fewer than 16; make one with: head -c 32 /dev/urandom | base64"},
		"a short key":      {"k2=" + one + "\nk1=b25lLCBvZiAxNSBieXRl", "line 2: the key has 15 bytes, fewer than 16; make one with: head -c 32 /dev/urandom | base64"},
		"replaced later":   {"k1=\n#\nk1=" + one, "line 1: the key has 0 bytes"},
		"no padding":       {"k1=b25lLCBvZiAxNyBieXRlcy4", "line 1: the key is not standard base64"},
		"too much padding": {"k1=b25lLCBvZiAxOCBieXRlcy4u=", "line 1: the key is not standard base64"},
		"URL alphabet":     {"# x\nk1=-_-_-_-_-_-_-_-_-_-_-_-_", "line 2: the key is not standard base64"},
		"a space inside":   {"k1=b25lLCBvZi AxNiBieXRlcw==", "line 1: the key is not standard base64"},
		"a CR inside":      {"k1=b2\r5lLCBvZiAxNiBieXRlcw==", "line 1: the key is not standard base64"},
		"loose bits":       {"k1=b25lLCBvZiAxNiBieXRlcx==", "line 1: the key is not standard base64"},
		"id not UTF-8":     {"\xff=" + one, "line 1: the id is not UTF-8"},
		"a NUL in an id":   {"k1=" + one + "\nk\x002=" + one, "line 2: the id holds a control character"},
		"a tab in an id":   {"k\t1=" + one, "line 1: the id holds a control character"},
		"a CR in an id":    {"k1\rk2=" + one, "line 1: the id holds a control character"},
		"DEL in an id":     {"k\x7f=" + one, "line 1: the id holds a control character"},
		"C1 in an id":      {"k\u009f1=" + one, "line 1: the id holds a control character"},
		"a second mark":    {"\ufeff\ufeffk1=" + one, "line 1: the id holds a byte order mark"},
		"a mark later":     {"k1=" + one + "\n\ufeffk2=" + one, "line 2: the id holds a byte order mark"},
		"only a mark":      {"\ufeff", "no key"},
		"UTF-16":           {"\xff\xfek\x001\x00=\x00b\x00", "line 1: the id is not UTF-8"},
		"too long":         {strings.Repeat("#\n", 1<<20), "longer than 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := intent.ParseKeyring(tt.text)
			if ring != nil || !errors.Is(err, intent.ErrKeyring) || errors.Is(err, intent.ErrReference) || !strings.Contains(err.Error(), tt.want) {
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
	t.Setenv("BEAMAGENTS_TEST_KEYS", " k1="+one+"\n")
	t.Setenv("BEAMAGENTS_TEST_EMPTY", "")
	for _, ref := range []string{"env:BEAMAGENTS_TEST_KEYS", "file:" + write("a ring:1", "\n\nk1="+one+"\n\n")} {
		ring, err := intent.LoadKeyring(ref)
		if err != nil {
			t.Fatal(err)
		}
		if got := keyring(t, "k1", keyOne).Verify(sign(t, signer(t, ring, "k1"), full())); got != intent.OK {
			t.Errorf("%s holds another key", ref)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		ref  string
		want string
		is   error
	}{
		"empty":            {"", "neither", intent.ErrReference},
		"no scheme":        {"BEAMAGENTS_TEST_KEYS", "neither", intent.ErrReference},
		"no variable":      {"env:", "env: is not followed by a name", intent.ErrReference},
		"no path":          {"file: ", "file: is not followed by an absolute path", intent.ErrReference},
		"variable not set": {"env:BEAMAGENTS_TEST_NOTHING", "the environment variable that it names is not set", intent.ErrReference},
		"missing file":     {"file:" + filepath.Join(dir, "missing"), filepath.Join(dir, "missing"), fs.ErrNotExist},
		"missing, too":     {"file:" + filepath.Join(dir, "missing"), "reference", intent.ErrReference},
		"folder":           {"file:" + dir, dir + " is not a regular file", intent.ErrReference},
		"link to a folder": {"file:" + link, link + " is not a regular file", intent.ErrReference},
		"device":           {"file:" + os.DevNull, os.DevNull + " is not a regular file", intent.ErrReference},
		"short key":        {"file:" + write("short", "k1=c2hvcnQ=\n"), "line 1: the key has 5 bytes", nil},
		"variable empty":   {"env:BEAMAGENTS_TEST_EMPTY", "it holds no key", nil},
		"file without key": {"file:" + write("blank", "# nothing\n"), "it holds no key", nil},
		"too long":         {"file:" + write("long", strings.Repeat("#\n", 1<<20)), "longer than", nil},
	} {
		t.Run(name, func(t *testing.T) {
			ring, err := intent.LoadKeyring(tt.ref)
			if ring != nil || !errors.Is(err, intent.ErrKeyring) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("LoadKeyring = %v, %v; want an error with %q", ring, err, tt.want)
			}
			if tt.is != nil && !errors.Is(err, tt.is) || tt.is == nil && errors.Is(err, intent.ErrReference) {
				t.Errorf("LoadKeyring: %v, want %v", err, tt.is)
			}
		})
	}
}

// A pipe that nobody writes to is refused: opening it would block for ever.
func TestLoadKeyringOfAPipe(t *testing.T) {
	mkfifo, err := exec.LookPath("mkfifo")
	if err != nil {
		t.Skipf("no command makes a named pipe here: %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if out, err := exec.Command(mkfifo, pipe).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// The writer is there for a LoadKeyring that does open the pipe, so that the test ends.
	written := make(chan struct{})
	go func() {
		defer close(written)
		if w, err := os.OpenFile(pipe, os.O_WRONLY, 0); err == nil {
			_ = w.Close()
		}
	}()
	_, err = intent.LoadKeyring("file:" + pipe)
	if r, err := os.OpenFile(pipe, os.O_RDWR, 0); err != nil {
		t.Error(err)
	} else {
		<-written
		_ = r.Close()
	}
	if !errors.Is(err, intent.ErrReference) || !strings.Contains(err.Error(), pipe+" is not a regular file") {
		t.Errorf("LoadKeyring of a pipe: %v", err)
	}
}

func TestCheckReference(t *testing.T) {
	for _, ref := range []string{
		"env:NOT_SET_ANYWHERE", "env:_", "env:a1", "env:" + strings.Repeat("A", 128),
		"file:/no/such/file", "file:/a b:c", "file:///no/such/file", "file:/k=v",
	} {
		if err := intent.CheckReference(ref); err != nil {
			t.Errorf("%q: %v", ref, err)
		}
	}
	for _, ref := range []string{
		"", "KEYS", "vault:x", "ENV:X", "File:/x", "k1=b25l", "b25l", "k1:b25l",
		"env:", "env: ", "env:k1=b25l", "env:b25l\nA", "env:1b25l", "env:b25l+", "env:b25l/", "env:b25l.A", "env: b25l", "env:b25l ",
		"env:b25l\x00", "env:\u00e4b25l", "env:" + strings.Repeat("b25l", 32) + "A", "env:/b25l",
		"file:", "file: ", "file:b25l", "file:k1=b25l", "file:keys/b25l", "file:./b25l", "file: /b25l", "file:~/b25l",
		"file:/x\nk1=b25l", "file:/b25l\x00", "file:\\b25l", "file:/b25l\xff",
	} {
		err := intent.CheckReference(ref)
		if !errors.Is(err, intent.ErrKeyring) || !errors.Is(err, intent.ErrReference) || strings.Contains(err.Error(), "b25l") {
			t.Errorf("%q: %v", ref, err)
		}
		if _, loaded := intent.LoadKeyring(ref); loaded == nil || err == nil || loaded.Error() != err.Error() {
			t.Errorf("%q: LoadKeyring says %v, CheckReference %v", ref, loaded, err)
		}
	}
}

func TestKeyringString(t *testing.T) {
	for want, ring := range map[string]*intent.Keyring{
		"intent.Keyring(0 keys)": nil,
		"intent.Keyring(2 keys)": keyring(t, "k1", keyOne, "k2", keyTwo),
	} {
		if got := ring.String(); got != want {
			t.Errorf("String = %s, want %s", got, want)
		}
	}
	if got := new(intent.Keyring).String(); got != "intent.Keyring(0 keys)" {
		t.Errorf("String of the zero value = %s", got)
	}
}
