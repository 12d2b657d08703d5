package intent_test

import (
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// effector executes intents that a queue delivers.
type effector struct {
	ring  *intent.Keyring
	mode  intent.Mode
	tools map[string]func(args string) ([]byte, error)
}

// handle returns the answer to one delivery. An error is a delivery that gets no
// answer: it goes to a dead letter.
func (e effector) handle(wire []byte, nowMs int64) (*beamagentspb.ToolResult, error) {
	in := new(beamagentspb.ToolIntent)
	if err := proto.Unmarshal(wire, in); err != nil {
		return nil, err
	}
	// Signature first: nothing that the intent says counts before.
	if outcome := e.ring.Verify(in); !e.mode.Accepts(outcome) {
		return nil, fmt.Errorf("%s", outcome)
	}
	if intent.Expired(in, nowMs) {
		return intent.ExpiredResult(in, nowMs), nil
	}
	if kind := intent.KindOf(in); kind != intent.Tool {
		return nil, fmt.Errorf("kind %s is not executed here", kind)
	}
	result := &beamagentspb.ToolResult{
		IntentId: in.IntentId, EntityKey: in.EntityKey, Seq: in.Seq, CompletedAtMs: nowMs,
	}
	run, ok := e.tools[in.ToolName]
	if !ok {
		result.Status = beamagentspb.ToolResult_REJECTED
		result.ErrorMessage = "unknown tool"
		return result, nil
	}
	payload, err := run(in.ArgsJson)
	if err != nil {
		result.Status = beamagentspb.ToolResult_ERROR
		result.ErrorMessage = err.Error()
		return result, nil
	}
	result.Status = beamagentspb.ToolResult_OK
	result.Payload = payload
	return result, nil
}

// An effector verifies, refuses the expired, executes and answers.
func Example_effector() {
	// Read with LoadKeyring("env:NAME") or LoadKeyring("file:/path") in a program.
	ring, err := intent.ParseKeyring("2025=bm90IGEgcmVhbCBrZXksIGp1c3QgYW4gZXhhbXBsZQ==")
	if err != nil {
		panic(err)
	}
	signer, err := intent.NewSigner(ring, "2025")
	if err != nil {
		panic(err)
	}
	in, err := intent.Builder{
		EntityKey: []byte("customer-1"), Seq: 3, Step: 0,
		Kind: intent.Tool, Name: "greet", Args: map[string]any{"name": "Zoë"},
		CreatedAtMs: 1_000, ExpiresAtMs: 61_000,
	}.Build()
	if err != nil {
		panic(err)
	}
	signed, err := signer.Sign(in)
	if err != nil {
		panic(err)
	}
	forged := proto.CloneOf(signed)
	forged.ArgsJson = `{"name":"Mallory"}`

	e := effector{
		ring: ring,
		mode: intent.ModeRequire,
		tools: map[string]func(string) ([]byte, error){
			"greet": func(args string) ([]byte, error) {
				var person struct{ Name string }
				if err := json.Unmarshal([]byte(args), &person); err != nil {
					return nil, err
				}
				return canonjson.Marshal("greeted " + person.Name)
			},
		},
	}
	deliver := func(in *beamagentspb.ToolIntent, nowMs int64) {
		wire, err := proto.MarshalOptions{Deterministic: true}.Marshal(in)
		if err != nil {
			panic(err)
		}
		switch result, err := e.handle(wire, nowMs); {
		case err != nil:
			fmt.Println("dead letter:", err)
		case result.Status == beamagentspb.ToolResult_OK:
			fmt.Printf("%s %s\n", result.Status, result.Payload)
		default:
			fmt.Printf("%s %s\n", result.Status, result.ErrorMessage)
		}
	}
	deliver(signed, 2_000)
	deliver(signed, 61_000)
	deliver(forged, 2_000)
	deliver(in, 2_000)
	// Output:
	// OK "greeted Zoë"
	// EXPIRED intent expired at 61000
	// dead letter: bad_signature
	// dead letter: unsigned_intent
}

func ExampleID() {
	fmt.Println(intent.ID([]byte("k"), 0, 0))
	// Output: 6509fb29-9e35-5f25-bf85-b7860d49a026
}

func ExampleCacheKey() {
	key, err := intent.CacheKey(intent.CacheRequest{
		EntityKey: []byte("k"), Seq: 0, Model: "m", Messages: []string{"hello"},
	})
	fmt.Println(key, err)
	// Output: 65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c <nil>
}
