package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// call runs a command line, given as words.
func call(stdin string, args ...string) (stdout, stderr string, status int) {
	var out, errs bytes.Buffer
	status = run(args, strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), status
}

// w10 has the messages and params of the worked example with all unusual spellings.
const w10 = `{"model": "m", "tools": [],
	"messages": [{"role": "user", "content": "a<b>&\"q\"\\\/\t\u0001\u007f\u2028é😀"}],
	"params": {"z": 1e16, "a": 1e-7, "b": -0.0, "c": 12345678901234567890, "d": [true, null, 0.1], "\ufffd": 1, "\ud83d\ude00": 2}}`

func TestIntentIdentities(t *testing.T) {
	for _, tc := range []struct{ stdin, args, want string }{
		{"", "id --key-hex 6b --seq 0 --step 0", "6509fb29-9e35-5f25-bf85-b7860d49a026"},
		{"", "id --key-hex 6b --seq 0 --step 1", "2e047468-1bb8-5717-8cb0-d8e98f15a767"},
		{"", "id --key-hex 656E746974792D31 --seq 7 --step 2", "ae132720-ef00-5246-b526-5b18bec03dd0"},
		{"", "id --key-hex= --seq 0 --step 0", "30db89a2-7585-5735-849e-0be871f4c11d"},
		{"", "trace-id --key-hex 6b --seq 0", "2bf05d87d33251718085abe0727ad51a"},
		{"", "trace-id --key-hex 656e746974792d31 --seq 7", "79734ee4e9db598ab4dad4ad43d01b84"},
		{"", "span-id --key-hex 6b --seq 0 --role activation --index 0", "7b3127885df6577e"},
		{"", "span-id --key-hex 6b --seq 0 --role activation --index 2", "779ae21a06c85c0d"},
		{"", "span-id --key-hex 6b --seq 0 --role LLM_CALL --index 0", "d8f49edb39065909"},
		{"", "span-id --key-hex 6b --seq 0 --role INTENT_EMITTED --index 1", "babdc904666057c8"},
		{"", "span-id --key-hex 6b --seq 0 --role SUSPENDED --index 2", "351fe3c326875f50"},
		{"", "span-id --key-hex 6b --seq 0 --role TOOL_CALL --index 0", "04792d4bfa0b5844"},
		{"", "span-id --key-hex 6b --seq 0 --role ERROR --index 0", "2fe2b76bfa6454b5"},
		{"", "span-id --key-hex 6b --seq 0 --role timer --index 0", "36ed932d3e215e7f"},
		{`{"model":"m","messages":["hello"],"tools":null,"params":null}`, "cache-key --key-hex 6b --seq 0", "65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c"},
		{`{"messages":["hello"],"model":"m"}`, "cache-key --key-hex 6b --seq 0 -", "65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c"},
		{w10, "cache-key --key-hex 00ff --seq 3", "09f36fd1feaf4db9a18782774274bbbf04cc061226c4cc19056721a70553b29f"},
	} {
		stdout, stderr, status := call(tc.stdin, append([]string{"intent"}, strings.Fields(tc.args)...)...)
		if stdout != tc.want+"\n" || stderr != "" || status != 0 {
			t.Errorf("intent %s: %q, %q, status %d; want %s", tc.args, stdout, stderr, status, tc.want)
		}
	}
}

// The flags beyond the document of other programs are those of package intent.
func TestIntentCacheKeyRepeats(t *testing.T) {
	base := intent.CacheRequest{EntityKey: []byte("k"), Seq: 5, Model: "m", Messages: []any{"hello"}}
	for args, change := range map[string]func(*intent.CacheRequest){
		"":                       func(*intent.CacheRequest) {},
		"--repeat 2":             func(r *intent.CacheRequest) { r.Repeat = 2 },
		"--attempt 0":            func(r *intent.CacheRequest) { r.Fresh = true },
		"--attempt 3 --repeat 1": func(r *intent.CacheRequest) { r.Fresh, r.Attempt, r.Repeat = true, 3, 1 },
	} {
		r := base
		change(&r)
		want, err := intent.CacheKey(r)
		if err != nil {
			t.Fatal(err)
		}
		words := append([]string{"intent", "cache-key", "--key-hex", "6b", "--seq", "5"}, strings.Fields(args)...)
		if stdout, stderr, status := call(`{"model":"m","messages":["hello"]}`, words...); stdout != want+"\n" || status != 0 {
			t.Errorf("%s: %q, %q, status %d; want %s", args, stdout, stderr, status, want)
		}
	}
}

func TestIntentCanonical(t *testing.T) {
	for in, want := range map[string]string{
		`{"z": [1, 2.0, "é"], "a": {"k2": null, "k1": true}}`: `{"a":{"k1":true,"k2":null},"z":[1,2.0,"é"]}`,
		`1e2`:       `100.0`,
		"\"\\/\"\n": `"/"`,
	} {
		if stdout, stderr, status := call(in, "intent", "canonical"); stdout != want || stderr != "" || status != 0 {
			t.Errorf("%s: %q, %q, status %d; want %q", in, stdout, stderr, status, want)
		}
	}
	path := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(path, []byte(" [ ]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if stdout, _, status := call("", "intent", "canonical", path); stdout != "[]" || status != 0 {
		t.Errorf("of a file: %q, status %d", stdout, status)
	}
}

func TestIntentBadData(t *testing.T) {
	ring := keys(t, "k1", "one")
	cacheKey := []string{"cache-key", "--key-hex", "6b", "--seq", "0"}
	sign, verify := []string{"sign", "--keyring", ring, "--key-id", "k1"}, []string{"verify", "--keyring", ring}
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		want  string
	}{
		"canonical, duplicate":      {`{"a":1,"a":2}`, []string{"canonical"}, "at byte 7"},
		"canonical, empty":          {"", []string{"canonical"}, "at byte 0"},
		"canonical, two texts":      {"1 2", []string{"canonical"}, "at byte 2"},
		"canonical, number":         {"[1e400]", []string{"canonical"}, "at byte 1"},
		"canonical, not UTF-8":      {"\"\xff\"", []string{"canonical"}, "at byte 1"},
		"cache-key, no JSON":        {`{"model":"m",`, cacheKey, "at byte 13"},
		"cache-key, duplicate":      {`{"model":"m","model":"n","messages":[]}`, cacheKey, "duplicate member at byte 13"},
		"cache-key, no object":      {`["m"]`, cacheKey, "not a JSON object"},
		"cache-key, no model":       {`{"messages":[]}`, cacheKey, `"model" is missing`},
		"cache-key, no messages":    {`{"model":"m"}`, cacheKey, `"messages" is missing`},
		"cache-key, a number":       {`{"model":1,"messages":[]}`, cacheKey, `"model" is not text`},
		"cache-key, null":           {`{"model":null,"messages":[]}`, cacheKey, `"model" is not text`},
		"cache-key, another member": {`{"model":"m","messages":[],"seq":1}`, cacheKey, `"seq" is not valid: use model`},
		"cache-key, another case":   {`{"model":"m","messages":[],"Tools":1}`, cacheKey, `"Tools" is not valid: use model`},
		"sign, nothing":             {"", sign, "the input is empty; give the intent to sign"},
		"sign, a stream of nothing": {"", append(sign, "--delimited"), "the input is empty; give the intent to sign"},
		"sign, an empty intent":     {"\x00", append(sign, "--delimited"), "message 1 at byte 1: ToolIntent.intent_id is empty"},
		"sign, no id":               {"\x12\x01k\x2a\x01t", sign, "message 1 at byte 0: ToolIntent.intent_id is empty; set it before the intent is signed"},
		"sign, no key":              {"\x0a\x01i\x2a\x01t", sign, "message 1 at byte 0: ToolIntent.entity_key is empty"},
		"sign, no tool":             {"\x09" + staged + "\x06" + staged[:6], append(sign, "--delimited"), "message 2 at byte 11: ToolIntent.tool_name is empty"},
		"sign, no intent":           {"no protobuf", sign, "message 1 at byte 0: ToolIntent.signing_key_id is not valid"},
		"sign, not UTF-8":           {"\x2a\x01\xff", sign, "ToolIntent.tool_name is not UTF-8"},
		"sign, cut short":           {"\x05ab", append(sign, "--delimited"), "message 1 at byte 1: a message of 5 bytes is cut short after 2"},
		"verify, no intent":         {"\x00\x02\x2a\x01", append(verify, "--delimited", "--mode=off"), "message 2 at byte 2: ToolIntent.tool_name is cut short"},
		"verify, no framing":        {strings.Repeat("\xff", 20), append(verify, "--delimited"), "message 1 at byte 0: the length of a message is not a varint"},
	} {
		_, stderr, status := call(tc.stdin, append([]string{"intent"}, tc.args...)...)
		if status != 1 || !strings.HasPrefix(stderr, "beamagents: ") || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: status %d, %q; want 1 and %q", name, status, stderr, tc.want)
		}
	}
}

func TestIntentBadCalls(t *testing.T) {
	ring := keys(t, "k1", "one")
	folder := t.TempDir()
	for _, args := range []string{
		"sing", "id", "id --key-hex 6b --seq 0", "id --key-hex 6b --step 0", "id --seq 0 --step 0",
		"id --key-hex 6 --seq 0 --step 0", "id --key-hex 0x6b --seq 0 --step 0", "id --key-hex 6b --seq -1 --step 0",
		"id --key-hex 6b --seq 9223372036854775808 --step 0", "id --key-hex 6b --seq 0 --step 4294967296",
		"id --key-hex 6b --seq 0 --step -1", "id --key-hex 6b --seq 0 --step x", "id --key-hex 6b --seq 0 --step 0 extra",
		"id --key-hex 6b --seq 0 --step 0 --role x",
		"trace-id --key-hex 6b", "trace-id --seq 0", "trace-id --key-hex 6b --seq x",
		"span-id --key-hex 6b --seq 0 --role LLM_CALL", "span-id --key-hex 6b --seq 0 --index 0",
		"span-id --key-hex 6b --seq 0 --role llm_call --index 0", "span-id --key-hex 6b --seq 0 --role ACTIVATION_START --index 0",
		"span-id --key-hex 6b --seq 0 --role= --index 0",
		"cache-key", "cache-key --key-hex 6b --seq 0 one two", "cache-key --key-hex 6b --seq 0 " + folder,
		"canonical " + filepath.Join(folder, "missing"), "canonical " + folder, "canonical --pretty",
		"sign --keyring " + ring, "sign --key-id k1", "sign --keyring " + ring + " --key-id k2", "sign --keyring " + ring + " --key-id=",
		"sign --keyring file:" + filepath.Join(folder, "missing") + " --key-id k1", "sign --keyring file:" + folder + " --key-id k1",
		"sign --keyring env:BEAMAGENTS_TEST_NOTHING --key-id k1", "sign --keyring env: --key-id k1",
		"sign --keyring file:ring --key-id k1", "sign --keyring file: --key-id k1", "verify --keyring file:ring", "verify --keyring env:A-B",
		"verify --keyring file:" + folder, "verify --keyring env:BEAMAGENTS_TEST_NOTHING",
		"sign --keyring vault:x --key-id k1", "sign --keyring= --key-id k1",
		"verify", "verify --keyring " + ring + " --mode strict", "verify --keyring " + ring + " --mode=",
		"verify --keyring file:" + filepath.Join(folder, "missing"), "verify --keyring " + ring + " " + filepath.Join(folder, "missing"),
	} {
		stdout, stderr, status := call("", append([]string{"intent"}, strings.Fields(args)...)...)
		if status != 2 || stdout != "" || !strings.HasPrefix(stderr, "beamagents: ") || strings.Count(stderr, "\n") != 1 {
			t.Errorf("intent %s: status %d, %q, %q; want 2 and one line", args, status, stdout, stderr)
		}
	}
}

// A keyring that exists and cannot be used is bad data, not a wrong call.
func TestIntentBadKeyrings(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"no key":      {"# no key\n", "it holds no key"},
		"a short key": {"k1=c2hvcnQ=\n", "line 1: the key has 5 bytes, fewer than 16; make one with: head -c 32 /dev/urandom | base64"},
		"empty":       {"", "it holds no key"},
		"no base64":   {"k1=x", "line 1: the key is not standard base64"},
		"no id":       {"\n=b25lLCBvZiAxNiBieXRlcw==", "line 2: not of the form id=key"},
		"a bad id":    {"k\t1=b25lLCBvZiAxNiBieXRlcw==", "line 1: the id holds a control character"},
		"a long text": {strings.Repeat("#\n", 1<<20), "longer than"},
	} {
		path := filepath.Join(t.TempDir(), "ring")
		if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
			t.Fatal(err)
		}
		refs := []string{"file:" + path}
		if len(tc.text) < 1<<16 { // more than the environment takes, perhaps
			t.Setenv("BEAMAGENTS_TEST_KEYS", tc.text)
			refs = append(refs, "env:BEAMAGENTS_TEST_KEYS")
		}
		for _, ref := range refs {
			for _, args := range [][]string{{"sign", "--key-id", "k1"}, {"verify"}, {"verify", "--mode", "off"}} {
				stdout, stderr, status := call("", append([]string{"intent", args[0], "--keyring", ref}, args[1:]...)...)
				if status != 1 || stdout != "" || !strings.Contains(stderr, tc.want) {
					t.Errorf("%s: %v %s: status %d, %q, %q; want 1 and %q", name, args, ref, status, stdout, stderr, tc.want)
				}
			}
		}
	}
}

// staged is an encoded intent with the fields that every intent has.
const staged = "\x0a\x01i\x12\x01k\x2a\x01t"

// keys writes a keyring of pairs of id and key, which are repeated until they are long
// enough, and returns its reference.
func keys(t *testing.T, pairs ...string) string {
	t.Helper()
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		for len(pairs[i+1]) < 16 {
			pairs[i+1] += pairs[i+1]
		}
		text.WriteString(pairs[i] + "=" + base64.StdEncoding.EncodeToString([]byte(pairs[i+1])) + "\n")
	}
	path := filepath.Join(t.TempDir(), "ring")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return "file:" + path
}

// Inputs and signatures of three intents that a program in another language signed.
func TestIntentSignAndVerify(t *testing.T) {
	count := make([]byte, 32)
	for i := range count {
		count[i] = byte(i)
	}
	ring := keys(t, "golden-k1", string(count), "k1", strings.Repeat("\x01", 32))
	const (
		sa = "0a2464646464646464642d656565652d356666662d383030302d3131313131313131313131311208656e746974792d31180720052a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001"
		sb = "0a2465656565656565652d666666662d353030302d383131312d3232323232323232323232321208656e746974792d31180720062a09687474702e706f7374321e7b2275726c223a2268747470733a2f2f6578616d706c652e74657374227d3880d095ffbc3140e0a499ffbc315001"
		sc = "0a2432653034373436382d316262382d353731372d386362302d64386539386631356137363712016b20012a09687474702e706f7374320b7b2275726c223a2278227d38e80740c8dc0350015a102bf05d87d33251718085abe0727ad51a"
	)
	var inputs, outputs string
	for _, tc := range []struct{ id, input, output string }{
		{"golden-k1", sa, sa + "60016a09676f6c64656e2d6b317220d0fbc9489f1f0bc8f5c33820fff40d42bd49108faa927c7af238ac96c09cad61"},
		{"golden-k1", sb + "a01f2a", sb + "60016a09676f6c64656e2d6b31722004d78c1f21c8eb79f2d5dd2f4586b66d7f33f1a460ea4a45b60518fd37f14862a01f2a"},
		{"k1", sc, sc + "60016a026b31722099da73578aca8cfada0c6619ba0e860067eb74aafe85d606d4de043c438a6a94"},
	} {
		input, output := unhex(t, tc.input), unhex(t, tc.output)
		stdout, stderr, status := call(input, "intent", "sign", "--keyring", ring, "--key-id", tc.id)
		if stdout != output || stderr != "" || status != 0 {
			t.Errorf("signed %x, %q, status %d; want %x", stdout, stderr, status, output)
		}
		for stdin, want := range map[string]string{output: "ok\n", input: "unsigned_intent\n"} {
			stdout, stderr, status := call(stdin, "intent", "verify", "--keyring", ring)
			if stdout != want || stderr != "" || (status == 0) != (want == "ok\n") {
				t.Errorf("%x: %q, %q, status %d; want %q", stdin, stdout, stderr, status, want)
			}
		}
		if tc.id == "golden-k1" {
			inputs, outputs = inputs+framed(t, input), outputs+framed(t, output)
		}
	}
	stdout, stderr, status := call(inputs, "intent", "sign", "--keyring", ring, "--key-id", "golden-k1", "--delimited")
	if stdout != outputs || stderr != "" || status != 0 {
		t.Errorf("signed a stream: %x, %q, status %d", stdout, stderr, status)
	}
	// What was signed before a fault has been written.
	stdout, _, status = call(inputs+"\x05a", "intent", "sign", "--keyring", ring, "--key-id", "golden-k1", "--delimited")
	if stdout != outputs || status != 1 {
		t.Errorf("signed a stream that is cut short: %x, status %d", stdout, status)
	}
}

func unhex(t *testing.T, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func framed(t *testing.T, message string) string {
	t.Helper()
	var out bytes.Buffer
	if err := writeFrame(&out, []byte(message), true); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestIntentVerifyModes(t *testing.T) {
	ring := keys(t, "k1", strings.Repeat("\x01", 32))
	blob := func(name string) string {
		b, err := golden.Lookup("v1/" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b.Bytes)
	}
	ok, unsigned, unknown := blob("tool_intent_signed_seq_0"), blob("tool_intent"), blob("tool_intent_signed")
	in := new(pb.ToolIntent)
	if err := proto.Unmarshal([]byte(ok), in); err != nil {
		t.Fatal(err)
	}
	in.ArgsJson = "{}"
	forged, err := proto.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	stream := func(messages ...string) (all string) {
		for _, m := range messages {
			all += framed(t, m)
		}
		return all
	}
	for name, tc := range map[string]struct {
		stdin, flags, want string
		status             int
	}{
		"require is the default": {stream(ok, unsigned), "", "ok\nunsigned_intent\n", 1},
		"require":                {stream(ok, blob("tool_intent_not_canonical")), "--mode require", strings.Repeat("ok\n", 2), 0},
		"the first is refused":   {stream(unsigned, ok), "", "unsigned_intent\nok\n", 1},
		"permissive":             {stream(ok, unsigned, ""), "--mode permissive", "ok\n" + strings.Repeat("unsigned_intent\n", 2), 0},
		"permissive, forged":     {stream(string(forged), ok), "--mode permissive", "bad_signature\nok\n", 1},
		"permissive, no key":     {stream(unknown), "--mode permissive", "unknown_signing_key\n", 1},
		"off":                    {stream(ok, unsigned, string(forged), unknown), "--mode off", "ok\nunsigned_intent\nbad_signature\nunknown_signing_key\n", 0},
		"one":                    {stream(ok), "", "ok\n", 0},
	} {
		args := append([]string{"intent", "verify", "--keyring", ring, "--delimited"}, strings.Fields(tc.flags)...)
		stdout, stderr, status := call(tc.stdin, args...)
		if stdout != tc.want || stderr != "" || status != tc.status {
			t.Errorf("%s: %q, %q, status %d; want %q, %d", name, stdout, stderr, status, tc.want, tc.status)
		}
	}
}

// Verifying nothing must not count as success silently.
func TestIntentVerifyNothing(t *testing.T) {
	ring, file := keys(t, "k1", "one"), filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for flags, want := range map[string]result{
		"--delimited":                    {0, "", "beamagents: the input is empty\n"},
		"--delimited " + file:            {0, "", "beamagents: the input is empty\n"},
		"":                               {1, "unsigned_intent\n", "beamagents: the input is empty\n"},
		"--mode permissive":              {0, "unsigned_intent\n", "beamagents: the input is empty\n"},
		"--mode off --delimited " + file: {0, "", "beamagents: the input is empty\n"},
	} {
		args := append([]string{"intent", "verify", "--keyring", ring}, strings.Fields(flags)...)
		if got := runWith("", args...); got != want {
			t.Errorf("%s: %+v, want %+v", flags, got, want)
		}
	}
}

// No output shows a key, whatever the fault is.
func TestIntentSecretsAreNotPrinted(t *testing.T) {
	const secret = "QZXJKVWYQJXZVKWYJQXKZWVYQKXJZWYV"
	b64 := base64.StdEncoding.EncodeToString([]byte(secret))
	path := filepath.Join(t.TempDir(), "broken")
	if err := os.WriteFile(path, []byte("k1="+b64+"\n"+secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := keys(t, "k1", secret)
	t.Setenv("BEAMAGENTS_TEST_KEYS", b64)
	wire, err := proto.Marshal(&pb.ToolIntent{IntentId: "i", EntityKey: []byte("k"), ToolName: "t"})
	if err != nil {
		t.Fatal(err)
	}
	for _, stdin := range []string{string(wire), "no protobuf"} {
		for _, ref := range []string{good, "file:" + path, "env:BEAMAGENTS_TEST_KEYS", "k1=" + b64, b64, "env:k1=" + b64, "file:k1=" + b64, "file:" + b64, "env:" + strings.TrimRight(b64, "=")} {
			for _, id := range []string{"k1", "k2", "", "k1=" + b64} {
				for _, args := range [][]string{
					{"intent", "sign", "--keyring", ref, "--key-id", id}, {"intent", "verify", "--keyring", ref},
					{"intent", "sign", "--keyring", ref, "--key-id", id, "--help"}, {"intent", "sign", "--keyring", ref, "--wrong"},
				} {
					stdout, stderr, _ := call(stdin, args...)
					for _, form := range []string{secret[:8], b64[:10], hex.EncodeToString([]byte(secret[:6]))} {
						if strings.Contains(stdout+stderr, form) {
							t.Errorf("%v prints the key: %q %q", args, stdout, stderr)
						}
					}
				}
			}
		}
	}
}
