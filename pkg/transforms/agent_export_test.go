package transforms

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func exportOf(key string, ms int64) *pb.AgentEnvelope {
	return &pb.AgentEnvelope{EntityKey: []byte(key), EventTimeMs: ms, Payload: &pb.AgentEnvelope_ExportRequest{
		ExportRequest: &pb.AgentEnvelope_StateExportRequest{RequestId: fmt.Sprint("export at ", ms)},
	}}
}

// exported returns the emitted snapshots, encoded.
func (k *agentKit) exported() (all []string) {
	k.t.Helper()
	for _, e := range k.snapshots.All() {
		all = append(all, string(encodedMessage(k.t, e.Value)))
	}
	return all
}

func encodedMessage(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withNewer returns m with a field of a newer schema.
func withNewer[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
	return m
}

// An export contains the blobs as they are stored: of an older version, with fields of a newer
// schema, and with faults that the runtime would repair. It writes nothing and sets no timer.
func TestExportIsVerbatim(t *testing.T) {
	memory := withNewer(&pb.MemoryBlob{TotalValueBytes: 99, Entries: []*pb.MemoryEntry{ // version 0, and a wrong total
		withNewer(&pb.MemoryEntry{Key: "twice", Value: []byte("a"), LastAccessMs: 7}), {Key: "twice", Value: []byte("b")}, {},
	}})
	cache := withNewer(&pb.LlmCacheBlob{TotalResponseBytes: -1, Entries: []*pb.LlmCacheEntry{{CacheKey: "c", Response: []byte("r"), CreatedAtMs: 1}}})
	continuation := withNewer(&pb.Continuation{Seq: 3, StepIndex: 1, PendingIntentIds: []string{"i"}, Adapter: "another", Snapshot: []byte("s"), DeadlineMs: 50_000, Escalations: 2})
	pending := withNewer(&pb.ToolIntent{IntentId: "i", EntityKey: []byte("a"), Seq: 3, ToolName: "t", ArgsJson: "{ }", ExpiresAtMs: 9000, Kind: pb.ToolIntent_APPROVAL})
	control := &runtimepb.KeyControl{StateSchemaVersion: 1, Seq: 4, Continuation: continuation, Pending: []*pb.ToolIntent{pending}}
	want := encodedMessage(t, &pb.StateSnapshot{
		StateSchemaVersion: 1, EntityKey: []byte("a"), Seq: 4, SnapshotAtMs: 6000, RequestId: "export at 6000",
		Memory: memory, LlmCache: cache, Continuation: continuation, Pending: []*pb.ToolIntent{pending},
	})
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		for cell, value := range map[string]proto.Message{"control": control, "memory": memory, "llm_cache": cache} {
			if err := k.SetValue("a", cell, proto.Clone(value)); err != nil {
				t.Fatal(err)
			}
		}
		before := k.states()
		k.run(exportOf("a", 6000))
		if rpcs := k.RPCs(); rpcs.Clears != 0 || rpcs.Appends != 0 {
			t.Errorf("an export wrote: %+v", rpcs)
		}
		k.advance(6000) // wake
		if got := k.exported(); len(got) != 1 || got[0] != string(want) {
			t.Errorf("exported %x, want %x", got, want)
		}
		if after := k.states(); !reflect.DeepEqual(before, after) {
			t.Errorf("state %x, was %x", after, before)
		}
		k.expect()
	})
}

// exports is a history with an export at each place.
func exports() (all []*pb.AgentEnvelope) {
	for i, env := range []*pb.AgentEnvelope{
		eventFor("a", 1000, script{Count: "n", Act: []string{"t"}, Ask: []string{"u"}, Then: "suspend", Timeout: 50_000, Next: &script{Count: "n"}}),
		eventFor("a", 1100, script{Count: "n"}), // it is deferred
		eventFor("b", 1200, script{Put: []string{"x=1"}}),
		resultFor(firstIntent("a"), 1300, "fine"),
		eventFor("a", 1400, script{Put: []string{"x=1"}, Then: "fail"}),
		eventFor("a", 1500, script{Put: []string{"x=2"}}),
	} {
		all = append(all, exportOf("a", int64(2000+i)), env)
	}
	return append(all, exportOf("a", 3000), exportOf("b", 3000), exportOf("none", 3000))
}

// An export in the middle of a bundle contains the effects of the activations before it, and not of
// those after it. It is equal to the export in a bundle of its own.
func TestExportWithinABundle(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		apart := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: 1e12})
		for _, env := range exports() {
			apart.run(env)
		}
		together := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: 1e12})
		together.run(exports()...)
		// A bundle emits in the order of its keys.
		want, got := apart.exported(), together.exported()
		slices.Sort(want)
		slices.Sort(got)
		if len(want) != 9 || len(slices.Compact(slices.Clone(want))) != 9 || !slices.Equal(want, got) {
			t.Errorf("in one bundle\n%q\napart\n%q", got, want)
		}
		if got, want := together.states(), apart.states(); !reflect.DeepEqual(got, want) {
			t.Errorf("state %q, want %q", got, want)
		}
	})
}

// A history without its exports leaves the same state and has the same outputs.
func TestExportChangesNothing(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		with, without := newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: 1e12}), newAgentKit(t, AgentParams{Concurrency: concurrency, TTL: 1e12})
		for _, env := range exports() {
			with.run(env)
			if env.GetExportRequest() == nil {
				without.run(env)
			}
		}
		with.advance(3000)
		without.advance(3000)
		if got, want := with.states(), without.states(); !reflect.DeepEqual(got, want) {
			t.Errorf("state %q, want %q", got, want)
		}
		with.expect(without.said()...)
		for _, key := range []string{"a", "b", "none"} {
			if got, want := with.armed(key), without.armed(key); !slices.Equal(got, want) {
				t.Errorf("timers of %s: %q, want %q", key, got, want)
			}
		}
	})
}

// If a bundle with exports is retried after a crash at any step, the exports are the same bytes.
func TestExportOfARetriedBundle(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		undisturbed := newAgentKit(t, AgentParams{Concurrency: concurrency})
		undisturbed.run(exports()...)
		want := undisturbed.exported()
		for n := 1; ; n++ {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			k.CrashAt(n)
			err := k.try(exports()...)
			if err != nil {
				k.run(exports()...)
			}
			if got := k.exported(); !slices.Equal(got, want) {
				t.Errorf("crash at %d: got\n%q\nwant\n%q", n, got, want)
			}
			if err == nil {
				if n < 15 {
					t.Errorf("only %d steps", n)
				}
				return
			}
			if !errors.Is(err, beamtest.ErrCrash) {
				t.Fatal(err)
			}
		}
	})
}

// An export is a copy: a later activation changes the state and not the export.
func TestExportIsACopy(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		k := newAgentKit(t, AgentParams{Concurrency: concurrency})
		k.run(eventFor("a", 1000, script{Put: []string{"x=1"}}), exportOf("a", 1001), eventFor("a", 1002, script{Put: []string{"x=2"}}))
		if got := k.snapshots.All()[0].Value.GetMemory().GetEntries(); len(got) != 1 || !bytes.Equal(got[0].GetValue(), []byte("1")) {
			t.Errorf("exported %v", got)
		}
	})
}

// If an activation fails in a bundle, a later export does not show it: neither in a memory that was
// stored, nor in one that was stored without a version or without entries.
func TestExportAfterAFailure(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		for name, prepare := range map[string]func(k *agentKit){
			"entries": func(k *agentKit) {
				k.run(eventFor("a", 1000, script{Put: []string{"a=1", "b=2", "c=3", "d=4"}, Count: "n"}))
			},
			"nothing": func(*agentKit) {},
			"no version": func(k *agentKit) {
				if err := k.SetValue("a", "memory", &pb.MemoryBlob{Entries: []*pb.MemoryEntry{{Key: "b", Value: []byte("1")}, {Key: "c", Value: []byte("2")}}, TotalValueBytes: 2}); err != nil {
					k.t.Fatal(err)
				}
			},
			"no entries": func(k *agentKit) {
				if err := k.SetValue("a", "memory", &pb.MemoryBlob{StateSchemaVersion: 1}); err != nil {
					k.t.Fatal(err)
				}
			},
		} {
			for _, sdk := range []bool{false, true} {
				fails := eventFor("a", 2000, script{Put: []string{"b=7", "x=3", "c=1"}, Count: "n", Then: "fail"})
				apart := newAgentKit(t, AgentParams{Concurrency: concurrency})
				apart.SDK = sdk
				prepare(apart)
				apart.run(fails)
				apart.run(exportOf("a", 3000))
				together := newAgentKit(t, AgentParams{Concurrency: concurrency})
				together.SDK = sdk
				prepare(together)
				together.run(fails, exportOf("a", 3000))
				if got, want := together.exported(), apart.exported(); !slices.Equal(got, want) || len(want) != 1 {
					t.Errorf("%s, SDK's provider %v: in one bundle\n%q\napart\n%q", name, sdk, got, want)
				}
			}
		}
	})
}
