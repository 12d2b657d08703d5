package main

import (
	"bytes"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The reader of a pipe gets the output for a message before the next message arrives.
func TestLiveStreams(t *testing.T) {
	ring := keys(t, "k1", "one")
	loaded, err := intent.LoadKeyring(ring)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := intent.NewSigner(loaded, "k1")
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(&pb.ToolIntent{IntentId: "i", EntityKey: []byte("k"), ToolName: "t"})
	if err != nil {
		t.Fatal(err)
	}
	signedBytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(signed)
	if err != nil {
		t.Fatal(err)
	}
	const seven = "\x02\x18\x07"
	for name, tc := range map[string]struct {
		args         []string
		times        int
		input, wants string
	}{
		"decode":           {[]string{"decode", "--type", "ToolIntent", "--delimited"}, 2, seven, "{\"seq\":\"7\"}\n"},
		"decode, two":      {[]string{"decode", "--type", "ToolIntent", "--delimited"}, 2, seven + seven, "{\"seq\":\"7\"}\n{\"seq\":\"7\"}\n"},
		"decode, and some": {[]string{"decode", "--type", "ToolIntent", "--delimited"}, 1, "\x00" + "\xc0\x9a\x0c\x0a", "{}\n"},
		"encode":           {[]string{"encode", "--type", "ToolIntent", "--delimited"}, 2, "{\"seq\":7}\n", seven},
		"deadletter show":  {[]string{"deadletter", "show", "--delimited"}, 2, "\x03\x12\x01r", "{\"reason\":\"r\"}\n"},
		"snapshot show":    {[]string{"snapshot", "show", "--delimited", "--output", "json"}, 2, "\x02\x18\x07", "{\"seq\":\"7\"}\n"},
		"snapshot, lines":  {[]string{"snapshot", "show", "--output", "json"}, 2, "{\"seq\":7}\n", "{\"seq\":\"7\"}\n"},
		"events project":   {[]string{"events", "project"}, 2, "\n", "{\"error\":\"expected a value at byte 0\"}\n"},
		"events check":     {[]string{"events", "check"}, 1, "\n", "line 1: expected a value at byte 0\n"},
		"intent sign":      {[]string{"intent", "sign", "--keyring", ring, "--key-id", "k1", "--delimited"}, 2, framed(t, staged), framed(t, string(signedBytes))},
		"intent verify":    {[]string{"intent", "verify", "--keyring", ring, "--delimited"}, 2, framed(t, string(signedBytes)), "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			reader, writer := io.Pipe()
			var stdout, stderr bytes.Buffer
			ended := make(chan int)
			go func() { ended <- run(tc.args, reader, &stdout, &stderr) }()
			for range tc.times { // twice, because the stream continues
				stdout.Reset()
				// The empty write returns when the program reads again, and so has processed the
				// message.
				for _, b := range []string{tc.input, ""} {
					if _, err := writer.Write([]byte(b)); err != nil {
						t.Fatal(err)
					}
				}
				if got := stdout.String(); got != tc.wants {
					t.Errorf("%q is there while the program waits, want %q", got, tc.wants)
				}
			}
			if err := writer.Close(); err != nil {
				t.Fatal(err)
			}
			<-ended
		})
	}
}
