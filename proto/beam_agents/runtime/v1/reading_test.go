package beamagentsruntimepb_test

import (
	"bytes"
	"crypto/sha256"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/golden"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// The tests of this file read golden blobs and compare with values spelled out here, so
// that neither a blob nor its text is believed.

const (
	id1 = "11111111-2222-5333-8444-555555555555"
	id2 = "aaaaaaaa-bbbb-5ccc-8ddd-eeeeeeeeeeee"
)

// read decodes the golden blob of that name into m and returns m and the blob's bytes.
func read[M proto.Message](t *testing.T, name string, m M) (M, []byte) {
	t.Helper()
	b, err := golden.Lookup("v1/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(b.Bytes, m); err != nil {
		t.Fatal(err)
	}
	return m, b.Bytes
}

func TestVersions(t *testing.T) {
	for name, want := range map[string]struct{ control, continuation uint32 }{
		"key_control":                     {1, 1},
		"key_control_stamp_0":             {0, 0},
		"key_control_mixed_versions":      {1, 0},
		"key_control_future_continuation": {1, 1000},
		"key_control_future_version":      {1000, 1},
	} {
		c, raw := read(t, name, &runtimepb.KeyControl{})
		if c.GetStateSchemaVersion() != want.control || c.GetContinuation().GetStateSchemaVersion() != want.continuation {
			t.Errorf("%s has versions %d and %d, want %v", name, c.GetStateSchemaVersion(), c.GetContinuation().GetStateSchemaVersion(), want)
		}
		if stamped := bytes.HasPrefix(raw, []byte{0x08}); stamped != (want.control != 0) {
			t.Errorf("%s: stamp written: %v", name, stamped)
		}
		again, err := proto.MarshalOptions{Deterministic: true}.Marshal(c)
		if err != nil || !bytes.Equal(again, raw) {
			t.Errorf("%s: reading and writing changes it: %v", name, err)
		}
	}
}

// A key is suspended if there is a continuation, be it empty.
func TestSuspension(t *testing.T) {
	for name, want := range map[string]bool{
		"key_control": true, "key_control_suspended": true, "key_control_sleep": true, "key_control_empty_parts": true,
		"key_control_fresh": false, "key_control_deferred": false, "key_control_empty": false,
	} {
		if c, _ := read(t, name, &runtimepb.KeyControl{}); (c.GetContinuation() != nil) != want {
			t.Errorf("%s has continuation %v", name, c.GetContinuation())
		}
	}
	for name, want := range map[string]bool{
		"deferred_event_empty": false, "deferred_event_empty_envelope": true, "deferred_event_first": true,
	} {
		if e, _ := read(t, name, &runtimepb.DeferredEvent{}); (e.GetEnvelope() != nil) != want {
			t.Errorf("%s has envelope %v", name, e.GetEnvelope())
		}
	}
}

func TestOrderIsKept(t *testing.T) {
	c, _ := read(t, "key_control_order", &runtimepb.KeyControl{})
	var pending []string
	for _, intent := range c.GetPending() {
		pending = append(pending, intent.GetIntentId())
	}
	if diff := cmp.Diff([]string{id2, id1, id2}, pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{id2, "", id1, id2}, c.GetExpiredIntentIds()); diff != "" {
		t.Errorf("expired (-want +got):\n%s", diff)
	}
}

// The parts of a continuation that comes in two are one, the last scalar counts and lists
// are joined.
func TestNotCanonical(t *testing.T) {
	c, raw := read(t, "key_control_not_canonical", &runtimepb.KeyControl{})
	plain, canonical := read(t, "key_control", &runtimepb.KeyControl{})
	if !proto.Equal(c, plain) || bytes.Equal(raw, canonical) {
		t.Errorf("reads as %v, want %v from other bytes", c, plain)
	}
	if diff := cmp.Diff([]string{id1, id2}, c.GetContinuation().GetPendingIntentIds()); diff != "" {
		t.Errorf("pending ids (-want +got):\n%s", diff)
	}
	if c.GetStartedMs() != 1_699_999_940_000 || c.GetContinuation().GetAdapter() != "langgraph" {
		t.Errorf("started %d, adapter %q", c.GetStartedMs(), c.GetContinuation().GetAdapter())
	}
}

// Recent events are one list, however they are written. The first 8 bytes of a hash are
// on the wire as they are in it.
func TestRecentEvents(t *testing.T) {
	hash := sha256.Sum256([]byte("0"))
	for name, want := range map[string]int{
		"key_control": 0, "key_control_all_fields": 3, "key_control_not_packed": 5, "key_control_recent": 256,
	} {
		c, raw := read(t, name, &runtimepb.KeyControl{})
		ids := c.GetRecentEventIds()
		if len(ids) != want || bytes.Contains(raw, hash[:8]) != (want > 0) || want > 0 && ids[0] != 0x386fc8ff66ebec5f {
			t.Errorf("%s has %d ids, the first ones %x", name, len(ids), ids[:min(2, len(ids))])
		}
	}
	c, _ := read(t, "key_control_not_packed", &runtimepb.KeyControl{})
	if diff := cmp.Diff([]string{id1, id2}, c.GetEscalationIds()); diff != "" || c.GetTimeoutsInRow() != 7 {
		t.Errorf("escalations (-want +got):\n%s\ntimeouts %d", diff, c.GetTimeoutsInRow())
	}
}

func TestCounts(t *testing.T) {
	type counts struct {
		armed, hour, drain           int64
		version, activations, misses uint32
	}
	for name, want := range map[string]counts{
		"key_control":                           {},
		"key_control_all_fields":                {1_700_086_400_000, 472_222, 1_699_999_970_000, 3, 12, 1},
		"key_control_all_fields_future_version": {1_700_086_400_000, 472_222, 1_699_999_970_000, 3, 12, 1},
		"key_control_recent":                    {1_700_043_200_000, 472_222, 0, 0, 200, 0},
		"key_control_recent_extremes":           {-1 << 63, -1, -1 << 63, 1<<32 - 1, 1<<32 - 1, 1<<32 - 1},
	} {
		c, _ := read(t, name, &runtimepb.KeyControl{})
		got := counts{c.GetTtlArmedMs(), c.GetHour(), c.GetDrainNowMs(), c.GetSnapshotVersion(), c.GetActivationsInHour(), c.GetTimeoutsInRow()}
		if got != want {
			t.Errorf("%s has %v, want %v", name, got, want)
		}
	}
}
