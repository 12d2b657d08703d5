package transforms_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/encoding/prototext"

	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function1x2(failingIntent)
}

// secretKey does not turn up by chance.
const secretKey = "QZXJKVWYQJXZVKWYJQXKZWVYQKXJZWYV"

const (
	secretsEnv  = "BEAMAGENTS_TEST_SECRET_KEYS"
	secretsFile = "BEAMAGENTS_TEST_SECRET_FILE"
)

// holds reports in which form text holds the first bytes of a word, if it does. It
// looks through layers of base64, in which Beam nests what a DoFn is made of.
func holds(text []byte, word string) string {
	forms := map[string]string{
		"raw": word[:12], "hex": hex.EncodeToString([]byte(word[:6])), "HEX": strings.ToUpper(hex.EncodeToString([]byte(word[:6]))),
		"decimal": strings.Trim(fmt.Sprintf("%d", []byte(word[:6])), "[]"), "hex words": strings.TrimSuffix(fmt.Sprintf("%#v", []byte(word[:6]))[7:], "}"),
	}
	var look func(text []byte, depth int) string
	look = func(text []byte, depth int) string {
		for name, form := range forms {
			if bytes.Contains(text, []byte(form)) {
				return name
			}
		}
		if depth == 0 {
			return ""
		}
		isBase64 := func(c byte) bool {
			return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '+' || c == '/'
		}
		for from := 0; from < len(text); {
			to := from
			for to < len(text) && isBase64(text[to]) {
				to++
			}
			// What stands before base64 text may look like a part of it.
			for start := from; start < from+4 && to-start >= 8; start++ {
				run := text[start : start+(to-start)/4*4]
				inner := make([]byte, base64.StdEncoding.DecodedLen(len(run)))
				if n, err := base64.StdEncoding.Decode(inner, run); err == nil {
					if name := look(inner[:n], depth-1); name != "" {
						return "base64 of " + name
					}
				}
			}
			from = to + 1
		}
		return ""
	}
	return look(text, 3)
}

func TestHoldsFindsKeys(t *testing.T) {
	b64 := base64.StdEncoding.EncodeToString
	for _, text := range []string{
		"..." + secretKey, hex.EncodeToString([]byte(secretKey)), "key=" + b64([]byte(secretKey)), "x" + b64([]byte("a"+secretKey)),
		b64([]byte(`{"Key":"` + b64([]byte("id="+secretKey)) + `"}`)), b64([]byte("x" + b64([]byte(b64([]byte(secretKey)))))),
		fmt.Sprintf("%d", []byte(secretKey)), fmt.Sprintf("%#v", []byte(secretKey)), fmt.Sprintf("%X", secretKey),
	} {
		if holds([]byte(text), secretKey) == "" {
			t.Errorf("not found in %s", text)
		}
	}
	if form := holds([]byte("QZXJKVWYQJX "+b64([]byte("QZXJKVWYQJX"))), secretKey); form != "" {
		t.Errorf("found as %s where it is not", form)
	}
}

// secretPipeline signs and verifies with the keys that refs name.
func secretPipeline(signing, verifying transforms.SignParams) *beam.Pipeline {
	p, s := beam.NewPipelineWithRoot()
	decoded := transforms.DecodeIntents(s, messages(s, canonical(toolIntent(nil))))
	signed := transforms.SignIntents(s, signing, decoded.Intents)
	verified := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: verifying.Keyring}, signed.Intents)
	again := transforms.VerifyIntents(s, transforms.VerifyParams{Mode: intent.ModePermissive, Keyring: signing.Keyring}, verified.Intents)
	beam.ParDo(s, failingIntent, again.Intents)
	beam.ParDo(s, stampedRecord, beam.Flatten(s, decoded.Errors, signed.Errors, verified.Errors, again.Errors))
	return p
}

// failingIntent fails the bundle, so that the runners print what they hold.
func failingIntent(in *pb.ToolIntent) (string, error) {
	return "", errors.New("failed on " + in.GetIntentId())
}

func TestSecretsAreNotInTheGraph(t *testing.T) {
	file := ringFile(t, "key-id-of-the-ring", secretKey)
	t.Setenv(secretsEnv, "key-id-of-the-ring="+base64.StdEncoding.EncodeToString([]byte(secretKey)))
	env := "env:" + secretsEnv
	params := transforms.SignParams{Keyring: env, KeyID: "key-id-of-the-ring"}
	edges, _, err := secretPipeline(params, transforms.SignParams{Keyring: file}).Build()
	if err != nil {
		t.Fatal(err)
	}
	environment, err := graphx.CreateEnvironment(context.Background(), "beam:env:external:v1", func(context.Context) string { return "localhost:0" })
	if err != nil {
		t.Fatal(err)
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: environment})
	if err != nil {
		t.Fatal(err)
	}
	wire := canonical(pipeline)
	for _, word := range []string{"key-id-of-the-ring", env, strings.TrimPrefix(file, "file:")} {
		if holds(wire, word) == "" {
			t.Errorf("the graph does not hold %q, which it should: this test would find nothing", word)
		}
	}
	if form := holds(wire, secretKey); form != "" {
		t.Errorf("the graph holds the key as %s", form)
	}
	verifying := transforms.VerifyParams{Mode: intent.ModeRequire, Keyring: file}
	asJSON, err := json.Marshal([]any{params, verifying})
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%v %+v %#v %v %+v %#v %s %s", params, params, params, verifying, verifying, verifying, asJSON, prototext.Format(pipeline))
	if form := holds([]byte(text), secretKey); form != "" {
		t.Errorf("printing shows the key as %s", form)
	}
}

// This test checks everything that both runners log at their highest level, with jobs that fail in
// Setup and in a bundle. It runs in a process of its own, to get all of the output.
func TestSecretsAreNotLogged(t *testing.T) {
	if file, child := os.LookupEnv(secretsFile); child {
		logSecretPipelines(t, file)
		return
	}
	b64 := base64.StdEncoding.EncodeToString([]byte(secretKey))
	file := ringFile(t, "key-id-of-the-ring", secretKey)
	cmd := exec.Command(os.Args[0], "-test.run=^TestSecretsAreNotLogged$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), secretsFile+"="+file,
		secretsEnv+"=key-id-of-the-ring="+b64, secretsEnv+"_BAD=k1="+b64+"\n"+secretKey)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.2000s", err, out)
	}
	for _, word := range []string{
		"failed on 2e047468-1bb8-5717-8cb0-d8e98f15a767", "key-id-of-nobody", "line 2: not of the form id=key", "level=DEBUG",
	} {
		if !bytes.Contains(out, []byte(word)) {
			t.Errorf("the log does not hold %q, which it should", word)
		}
	}
	if form := holds(out, secretKey); form != "" {
		t.Errorf("the log holds the key as %s", form)
	}
}

func logSecretPipelines(t *testing.T, file string) {
	log.SetupLogging("debug", "text")
	env := "env:" + secretsEnv
	for _, runner := range []string{"prism", "direct"} {
		for _, tc := range []struct{ signing, verifying transforms.SignParams }{
			{transforms.SignParams{Keyring: env, KeyID: "key-id-of-the-ring"}, transforms.SignParams{Keyring: file}},
			{transforms.SignParams{Keyring: file, KeyID: "key-id-of-the-ring"}, transforms.SignParams{Keyring: env}},
			{transforms.SignParams{Keyring: file, KeyID: "key-id-of-nobody"}, transforms.SignParams{Keyring: env}},
			{transforms.SignParams{Keyring: env + "_BAD", KeyID: "k1"}, transforms.SignParams{Keyring: env}},
			{transforms.SignParams{Keyring: env, KeyID: "key-id-of-the-ring"}, transforms.SignParams{Keyring: env + "_BAD"}},
		} {
			_, err := beam.Run(context.Background(), runner, secretPipeline(tc.signing, tc.verifying))
			if err == nil {
				t.Error("the pipeline did not fail")
			}
			for ; err != nil; err = errors.Unwrap(err) {
				fmt.Printf("%s: %v %+v %#v %q\n", runner, err, err, err, err)
			}
		}
	}
}
