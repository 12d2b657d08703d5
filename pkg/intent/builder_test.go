package intent_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/intent"
	beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func toolBuilder() intent.Builder {
	return intent.Builder{
		EntityKey: []byte("k"), Seq: 0, Step: 1, Kind: intent.Tool, Name: "http.post",
		Args: map[string]any{"url": "x"}, CreatedAtMs: 1000, ExpiresAtMs: 61000,
	}
}

func TestBuild(t *testing.T) {
	key := []byte("k")
	b := toolBuilder()
	b.EntityKey = key
	got, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	trace := intent.TraceID([]byte("k"), 0)
	want := &beamagentspb.ToolIntent{
		IntentId: "2e047468-1bb8-5717-8cb0-d8e98f15a767", EntityKey: []byte("k"), StepIndex: 1,
		ToolName: "http.post", ArgsJson: `{"url":"x"}`, CreatedAtMs: 1000, ExpiresAtMs: 61000,
		Kind: beamagentspb.ToolIntent_TOOL, TraceId: trace[:],
	}
	key[0] = 'x' // the intent has a copy
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}

	b = toolBuilder()
	b.Kind, b.Name, b.Args = intent.Approval, "managers", json.RawMessage(`[ "refund", 1e3 ]`)
	b.TraceID = intent.EvenTraceID(b.EntityKey, b.Seq)
	if got, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	want.ToolName, want.ArgsJson, want.Kind = "managers", `["refund",1000.0]`, beamagentspb.ToolIntent_APPROVAL
	want.TraceId = b.TraceID[:]
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Error(diff)
	}
}

func TestBuildArgs(t *testing.T) {
	large := strings.Repeat("é", 1<<19)
	for _, tt := range []struct {
		args any
		want string
	}{
		{nil, `{}`},
		{map[string]any{}, `{}`},
		{json.RawMessage(` {"z":[1,2.0,"\u00e9"],"a":{"k2":null,"k1":true}} `), `{"a":{"k1":true,"k2":null},"z":[1,2.0,"é"]}`},
		{map[string]string{"text": large}, `{"text":"` + large + `"}`},
	} {
		b := toolBuilder()
		b.Args = tt.args
		got, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		if got.ArgsJson != tt.want {
			t.Errorf("args %.80s, want %.80s", got.ArgsJson, tt.want)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*intent.Builder){
		"no kind":            func(b *intent.Builder) { b.Kind = intent.Unknown },
		"another kind":       func(b *intent.Builder) { b.Kind = 3 },
		"no name":            func(b *intent.Builder) { b.Name = "" },
		"name not UTF-8":     func(b *intent.Builder) { b.Name = "a\xff" },
		"negative seq":       func(b *intent.Builder) { b.Seq = -1 },
		"no expiry":          func(b *intent.Builder) { b.ExpiresAtMs = 0 },
		"negative expiry":    func(b *intent.Builder) { b.ExpiresAtMs = math.MinInt64 },
		"args not UTF-8":     func(b *intent.Builder) { b.Args = map[string]any{"a": "\xff"} },
		"args twice":         func(b *intent.Builder) { b.Args = json.RawMessage(`{"a":1,"a":2}`) },
		"args of a type":     func(b *intent.Builder) { b.Args = struct{ A int }{1} },
		"args not an object": func(b *intent.Builder) { b.Args = []any{1} },
		"args null":          func(b *intent.Builder) { b.Args = json.RawMessage("null") },
	} {
		t.Run(name, func(t *testing.T) {
			b := toolBuilder()
			spoil(&b)
			got, err := b.Build()
			if got != nil || !errors.Is(err, intent.ErrInvalid) {
				t.Fatalf("Build = %v, %v; want ErrInvalid", got, err)
			}
			if strings.HasPrefix(name, "args") {
				if err := b.Validate(); err != nil {
					t.Errorf("Validate: %v, though it does not look at args", err)
				}
			} else if err := b.Validate(); !errors.Is(err, intent.ErrInvalid) {
				t.Errorf("Validate: %v, want ErrInvalid", err)
			}
		})
	}
	b := toolBuilder()
	b.Args = json.RawMessage(`{"a":1,"a":2}`)
	var fault *canonjson.Error
	if _, err := b.Build(); !errors.As(err, &fault) || fault.Offset != 7 {
		t.Errorf("Build: %v, want the offset of the duplicate", err)
	}
}

func TestKindOf(t *testing.T) {
	for number, want := range map[beamagentspb.ToolIntent_Kind]intent.Kind{
		0: intent.Tool, 1: intent.Tool, 2: intent.Approval,
		3: intent.Unknown, -1: intent.Unknown, math.MaxInt32: intent.Unknown, math.MinInt32: intent.Unknown,
	} {
		if got := intent.KindOf(&beamagentspb.ToolIntent{Kind: number}); got != want {
			t.Errorf("KindOf %d = %v, want %v", number, got, want)
		}
	}
	if got := intent.KindOf(nil); got != intent.Unknown {
		t.Errorf("KindOf(nil) = %v", got)
	}
	for kind, want := range map[intent.Kind]string{intent.Tool: "tool", intent.Approval: "approval", intent.Unknown: "unknown", 9: "unknown"} {
		if got := kind.String(); got != want {
			t.Errorf("Kind(%d) = %s, want %s", kind, got, want)
		}
	}
}
