package state

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"github.com/beamagents/beamagents-go/golden"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/coders"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	testingpb "github.com/beamagents/beamagents-go/proto/beam_agents/testing/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() { coders.Register((*testingpb.Profile)(nil)) }

const now = 1_700_000_000_000

// allFn has every cell there is.
type allFn struct {
	Memory       Memory
	ReplayCache  ReplayCache
	Continuation Continuation
	Control      Control
	Deferred     Deferred
	Profile      Versioned[*testingpb.Profile]
	TTL          TTL
}

func (*allFn) ProcessElement(beamstate.Provider, timers.Provider, []byte, *pb.AgentEnvelope) {}

func (*allFn) OnTimer(beamstate.Provider, timers.Provider, []byte, timers.Context) {}

func newAllFn() *allFn {
	return &allFn{Profile: Versioned[*testingpb.Profile]{Key: "profile"}}
}

func newKit(t rapid.TB, fn any) *beamtest.Kit {
	t.Helper()
	k, err := beamtest.New(fn)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// bothProviders runs a test on the kit's own provider and on that of the SDK.
func bothProviders(t *testing.T, test func(t *testing.T, fn *allFn, k *beamtest.Kit)) {
	t.Helper()
	for _, sdk := range []bool{false, true} {
		t.Run(map[bool]string{false: "own", true: "sdk"}[sdk], func(t *testing.T) {
			fn := newAllFn()
			k := newKit(t, fn)
			k.SDK = sdk
			test(t, fn, k)
		})
	}
}

// run makes a call that must succeed.
func run(t rapid.TB, k *beamtest.Kit, call func(sp beamstate.Provider) error) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil { // of must
			t.Fatal(p)
		}
	}()
	if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error { return call(sp) }); err != nil {
		t.Fatal(err)
	}
}

// content is the message in a cell, nil if the cell is empty.
func content[M proto.Message](t rapid.TB, k *beamtest.Kit, cell string, m M) M {
	t.Helper()
	b := k.Bytes("k", cell)
	if b == nil {
		var none M
		return none
	}
	inner, n := protowire.ConsumeBytes(b)
	if n != len(b) {
		t.Fatalf("cell %s: %x", cell, b)
	}
	if err := proto.Unmarshal(inner, m); err != nil {
		t.Fatal(err)
	}
	return m
}

func equal(t rapid.TB, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

var (
	profile1 = migrate.New(1)
	profile2 = migrate.New(2)
	profile3 = migrate.New(3)
)

func splitName(old *testingpb.Profile) (*testingpb.Profile, error) {
	p := proto.CloneOf(old)
	p.StateSchemaVersion, p.Name = 2, ""
	p.GivenName, p.FamilyName, _ = strings.Cut(old.GetName(), " ")
	return p, nil
}

func labelTags(old *testingpb.Profile) (*testingpb.Profile, error) {
	p := proto.CloneOf(old)
	p.StateSchemaVersion, p.Tags = 3, nil
	for _, tag := range old.GetTags() {
		key, value, ok := strings.Cut(tag, "=")
		if !ok {
			return nil, fmt.Errorf("tag %q", tag)
		}
		p.Labels = append(p.Labels, &testingpb.Label{Key: key, Value: value})
	}
	return p, nil
}

func init() {
	migrate.AddStep(profile2, 1, splitName)
	migrate.AddStep(profile3, 1, splitName)
	migrate.AddStep(profile3, 2, labelTags)
}

// each is an access to one of the cells that hold a versioned message.
type access struct {
	id string
	// open opens the cell, mutate changes it, commit writes it.
	open   func(fn *allFn, sp beamstate.Provider) error
	mutate func(fn *allFn, sp beamstate.Provider) error
	clear  func(fn *allFn, sp beamstate.Provider) error
	commit func(fn *allFn, sp beamstate.Provider) error
	empty  func() migrate.Message
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func accesses() []access {
	memory := func(fn *allFn, sp beamstate.Provider) *MemoryHandle { return must(fn.Memory.Open(sp, now)) }
	cache := func(fn *allFn, sp beamstate.Provider) *ReplayCacheHandle { return must(fn.ReplayCache.Open(sp, now)) }
	continuation := func(fn *allFn, sp beamstate.Provider) *Handle[*pb.Continuation] {
		return must(fn.Continuation.Open(sp))
	}
	control := func(fn *allFn, sp beamstate.Provider) *Handle[*runtimepb.KeyControl] {
		return must(fn.Control.Open(sp))
	}
	profile := func(fn *allFn, sp beamstate.Provider) *Handle[*testingpb.Profile] {
		return must(fn.Profile.Open(sp, profile1))
	}
	return []access{
		{
			"memory",
			func(fn *allFn, sp beamstate.Provider) error { _, err := fn.Memory.Open(sp, now); return err },
			func(fn *allFn, sp beamstate.Provider) error { return memory(fn, sp).Put("key", []byte("value")) },
			func(fn *allFn, sp beamstate.Provider) error { memory(fn, sp).Clear(); return nil },
			func(fn *allFn, sp beamstate.Provider) error { return memory(fn, sp).Commit() },
			func() migrate.Message { return new(pb.MemoryBlob) },
		},
		{
			"llm_cache",
			func(fn *allFn, sp beamstate.Provider) error { _, err := fn.ReplayCache.Open(sp, now); return err },
			func(fn *allFn, sp beamstate.Provider) error {
				_, err := cache(fn, sp).Put("key", []byte("r"))
				return err
			},
			func(fn *allFn, sp beamstate.Provider) error { cache(fn, sp).Clear(); return nil },
			func(fn *allFn, sp beamstate.Provider) error { return cache(fn, sp).Commit() },
			func() migrate.Message { return new(pb.LlmCacheBlob) },
		},
		{
			"continuation",
			func(fn *allFn, sp beamstate.Provider) error { _, err := fn.Continuation.Open(sp); return err },
			func(fn *allFn, sp beamstate.Provider) error {
				return continuation(fn, sp).Put(&pb.Continuation{Seq: 7})
			},
			func(fn *allFn, sp beamstate.Provider) error { continuation(fn, sp).Clear(); return nil },
			func(fn *allFn, sp beamstate.Provider) error { return continuation(fn, sp).Commit() },
			func() migrate.Message { return new(pb.Continuation) },
		},
		{
			"control",
			func(fn *allFn, sp beamstate.Provider) error { _, err := fn.Control.Open(sp); return err },
			func(fn *allFn, sp beamstate.Provider) error {
				return control(fn, sp).Put(&runtimepb.KeyControl{Seq: 7})
			},
			func(fn *allFn, sp beamstate.Provider) error { control(fn, sp).Clear(); return nil },
			func(fn *allFn, sp beamstate.Provider) error { return control(fn, sp).Commit() },
			func() migrate.Message { return new(runtimepb.KeyControl) },
		},
		{
			"profile",
			func(fn *allFn, sp beamstate.Provider) error { _, err := fn.Profile.Open(sp, profile1); return err },
			func(fn *allFn, sp beamstate.Provider) error {
				return profile(fn, sp).Put(&testingpb.Profile{Name: "n"})
			},
			func(fn *allFn, sp beamstate.Provider) error { profile(fn, sp).Clear(); return nil },
			func(fn *allFn, sp beamstate.Provider) error { return profile(fn, sp).Commit() },
			func() migrate.Message { return new(testingpb.Profile) },
		},
	}
}

// The budget: each step is one kind of access, the RPCs are those of the whole call.
func TestRPCs(t *testing.T) {
	const open, mutate, clearCell, commit = "open", "mutate", "clear", "commit"
	none := beamtest.Counts{}
	read := beamtest.Counts{Reads: 1}
	write := beamtest.Counts{Reads: 1, Clears: 1, Appends: 2}
	remove := beamtest.Counts{Reads: 1, Clears: 1}
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for _, a := range accesses() {
			for name, tc := range map[string]struct {
				filled bool
				steps  []string
				want   beamtest.Counts
			}{
				"not opened":                  {true, nil, none},
				"opened":                      {true, []string{open}, read},
				"opened empty":                {false, []string{open}, read},
				"opened again and again":      {true, []string{open, open, open}, read},
				"opened empty, again":         {false, []string{open, open}, read},
				"committed unchanged":         {true, []string{open, commit, commit}, read},
				"committed empty":             {false, []string{open, commit}, read},
				"changed, never committed":    {true, []string{open, mutate}, read},
				"changed":                     {true, []string{open, mutate, commit}, write},
				"changed from empty":          {false, []string{open, mutate, commit}, write},
				"changed often":               {true, []string{mutate, mutate, clearCell, mutate, commit}, write},
				"committed twice":             {true, []string{mutate, commit, commit}, write},
				"cleared":                     {true, []string{clearCell, commit}, remove},
				"cleared empty":               {false, []string{clearCell, commit}, read},
				"cleared twice":               {true, []string{clearCell, commit, clearCell, commit}, remove},
				"filled and cleared":          {false, []string{mutate, clearCell, commit}, read},
				"changed after a commit":      {false, []string{mutate, commit, clearCell, commit}, beamtest.Counts{Reads: 1, Clears: 2, Appends: 2}},
				"written again after a clear": {true, []string{clearCell, commit, mutate, commit}, beamtest.Counts{Reads: 1, Clears: 2, Appends: 2}},
			} {
				k.SetBytes("k", a.id, nil)
				if tc.filled {
					run(t, k, func(sp beamstate.Provider) error { return errors.Join(a.mutate(fn, sp), a.commit(fn, sp)) })
					if a.id == "memory" || a.id == "llm_cache" { // another value than mutate's, or it changes nothing
						k.SetValue("k", a.id, filled(a.id))
					}
				}
				run(t, k, func(sp beamstate.Provider) error {
					for _, step := range tc.steps {
						err := map[string]func(*allFn, beamstate.Provider) error{open: a.open, mutate: a.mutate, clearCell: a.clear, commit: a.commit}[step](fn, sp)
						if err != nil {
							return err
						}
					}
					return nil
				})
				if k.RPCs() != tc.want {
					t.Errorf("%s, %s: %v; want %v", a.id, name, k.RPCs(), tc.want)
				}
			}
		}
	})
}

func filled(cell string) proto.Message {
	if cell == "memory" {
		return &pb.MemoryBlob{StateSchemaVersion: 1, Entries: []*pb.MemoryEntry{{Key: "old", Value: []byte("v")}}, TotalValueBytes: 1}
	}
	return &pb.LlmCacheBlob{StateSchemaVersion: 1, Entries: []*pb.LlmCacheEntry{{CacheKey: "old", Response: []byte("r"), CreatedAtMs: now}}, TotalResponseBytes: 1}
}

// State that an element did not commit, or could not commit, stays the same to the byte, whatever
// fails: an RPC, or the user's code after all RPCs.
func TestFailedElementLeavesTheBytes(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for _, a := range accesses() {
			run(t, k, func(sp beamstate.Provider) error { return errors.Join(a.mutate(fn, sp), a.commit(fn, sp)) })
			for _, stamp := range []uint32{0, 1} {
				m := content(t, k, a.id, a.empty())
				m.ProtoReflect().Set(m.ProtoReflect().Descriptor().Fields().ByName("state_schema_version"), uint32Value(stamp))
				k.SetBytes("k", a.id, nil)
				if err := k.SetValue("k", a.id, m); err != nil {
					t.Fatal(err)
				}
				before := k.Bytes("k", a.id)
				for n := 1; n <= 5; n++ {
					k.FailAt(n, nil)
					err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
						if err := a.open(fn, sp); err != nil {
							return err
						}
						if err := errors.Join(a.clear(fn, sp), a.mutate(fn, sp)); err != nil {
							return err
						}
						if err := a.commit(fn, sp); err != nil {
							return err
						}
						return errAfterAll
					})
					k.FailAt(0, nil)
					want := beamtest.ErrInjected
					if n == 5 {
						want = errAfterAll
					}
					if !errors.Is(err, want) {
						t.Errorf("%s: RPC %d fails: %v; want %v", a.id, n, err, want)
					}
					if got := k.Bytes("k", a.id); !bytes.Equal(got, before) {
						t.Errorf("%s: RPC %d fails: the cell holds %x, was %x", a.id, n, got, before)
					}
				}
				// The next element reads it as if the failed element had not been there.
				run(t, k, func(sp beamstate.Provider) error { return a.open(fn, sp) })
			}
		}
	})
}

var errAfterAll = errors.New("after all")

// Bytes that no build can read are an error, not an empty state.
func TestBytesThatAreNoMessage(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for _, a := range accesses() {
			broken := []byte{3, 0x0a, 0xff, 0xff}
			k.SetBytes("k", a.id, broken)
			if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error { return a.open(fn, sp) }); err == nil ||
				!strings.HasPrefix(err.Error(), "state: read "+a.id+": ") {
				t.Errorf("%s: %v", a.id, err)
			}
			if got := k.Bytes("k", a.id); !bytes.Equal(got, broken) {
				t.Errorf("%s: the cell holds %x", a.id, got)
			}
		}
	})
}

// A failed Open fails again in the same call. The SDK answers a second read as if the cell were
// empty, and a Commit would then overwrite the stored state.
func TestFailedOpenIsRemembered(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		broken := []byte{3, 0x0a, 0xff, 0xff}
		for _, a := range accesses() {
			for name, arrange := range map[string]func(){
				"no message": func() { k.SetBytes("k", a.id, broken) },
				"no RPC":     func() { k.SetBytes("k", a.id, []byte{0}); k.FailAt(1, nil) },
			} {
				arrange()
				before := k.Bytes("k", a.id)
				if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
					first := a.open(fn, sp)
					for range 2 {
						if err := a.open(fn, sp); first == nil || !errors.Is(err, first) {
							t.Errorf("%s, %s: %v, then %v", a.id, name, first, err)
						}
					}
					return nil // as a user who hides it
				}); err != nil || k.RPCs().Total() != 1 || !bytes.Equal(k.Bytes("k", a.id), before) {
					t.Errorf("%s, %s: %v, %v, the cell holds %x", a.id, name, err, k.RPCs(), k.Bytes("k", a.id))
				}
			}
			k.SetBytes("k", a.id, nil)
		}
		k.SetBytes("k", "deferred", broken)
		run(t, k, func(sp beamstate.Provider) error {
			h := fn.Deferred.Open(sp)
			_, first := h.Events()
			if _, err := h.Events(); first == nil || !errors.Is(err, first) || !errors.Is(h.Commit(), first) {
				t.Errorf("deferred: %v, then %v", first, err)
			}
			return nil
		})
		k.SetBytes("k", "deferred", nil)
	})
}

// It is unknown what a failed write has stored, so its handle cannot be used any more.
func TestFailedCommitIsRemembered(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for _, a := range accesses() {
			for n := 2; n <= 4; n++ { // the clear, the length, the data
				k.FailAt(n, nil)
				run(t, k, func(sp beamstate.Provider) error {
					err := errors.Join(a.mutate(fn, sp), a.commit(fn, sp))
					if !errors.Is(err, beamtest.ErrInjected) {
						t.Errorf("%s, RPC %d: %v", a.id, n, err)
					}
					done := k.RPCs()
					for _, again := range []func(*allFn, beamstate.Provider) error{a.commit, a.clear, a.commit, a.mutate, a.commit} {
						if err := again(fn, sp); err != nil && !errors.Is(err, beamtest.ErrInjected) {
							t.Errorf("%s, RPC %d: again: %v", a.id, n, err)
						}
					}
					if err := a.commit(fn, sp); !errors.Is(err, beamtest.ErrInjected) || k.RPCs() != done {
						t.Errorf("%s, RPC %d: in the end %v, with %v after %v", a.id, n, err, k.RPCs(), done)
					}
					return nil
				})
				k.SetBytes("k", a.id, nil)
			}
		}
		for n := 1; n <= 5; n++ {
			k.FailAt(n, nil)
			run(t, k, func(sp beamstate.Provider) error {
				h := fn.Deferred.Open(sp)
				h.Clear()
				for range 2 {
					if err := h.Add(&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{}}); err != nil {
						return err
					}
				}
				for range 2 {
					if err := h.Commit(); !errors.Is(err, beamtest.ErrInjected) || k.RPCs().Total() != n {
						t.Errorf("deferred, RPC %d: %v, %v", n, err, k.RPCs())
					}
				}
				return nil
			})
			k.SetBytes("k", "deferred", nil)
		}
	})
}

// Commit also checks changes that were made to the message after its Put.
func TestChangedAfterPut(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	for name, tc := range map[string]struct {
		change func(m *runtimepb.KeyControl)
		is     error
	}{
		"another version":              {func(m *runtimepb.KeyControl) { m.StateSchemaVersion = 2 }, ErrVersion},
		"text":                         {func(m *runtimepb.KeyControl) { m.ExpiredIntentIds = []string{"\xff"} }, coders.ErrText},
		"a newer continuation":         {func(m *runtimepb.KeyControl) { m.Continuation = &pb.Continuation{StateSchemaVersion: 2} }, nil},
		"no version, which is current": {func(m *runtimepb.KeyControl) { m.StateSchemaVersion, m.Seq = 0, 2 }, nil},
	} {
		run(t, k, func(sp beamstate.Provider) error {
			h := must(fn.Control.Open(sp))
			m := &runtimepb.KeyControl{Seq: 1}
			if err := h.Put(m); err != nil {
				return err
			}
			tc.change(m)
			err := h.Commit()
			var future *migrate.FutureError
			switch {
			case tc.is != nil && !errors.Is(err, tc.is), m.Continuation != nil && !errors.As(err, &future):
				t.Errorf("%s: %v", name, err)
			case m.Seq == 2 && err != nil:
				t.Errorf("%s: %v", name, err)
			}
			return nil
		})
		if got := content(t, k, "control", new(runtimepb.KeyControl)); name == "no version, which is current" != (got != nil) || got != nil && got.GetStateSchemaVersion() != 1 {
			t.Errorf("%s: stored %v", name, got)
		}
		k.SetBytes("k", "control", nil)
	}
}

// A migration is written once.
func TestMigrationIsWrittenOnce(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for name, tc := range map[string]struct {
			then func(h *Handle[*testingpb.Profile])
			want beamtest.Counts
		}{
			"committed twice":  {func(*Handle[*testingpb.Profile]) {}, beamtest.Counts{Reads: 1, Clears: 1, Appends: 2}},
			"committed, clear": {func(h *Handle[*testingpb.Profile]) { h.Clear() }, beamtest.Counts{Reads: 1, Clears: 2, Appends: 2}},
		} {
			k.SetBytes("k", "profile", nil)
			if err := k.SetValue("k", "profile", &testingpb.Profile{StateSchemaVersion: 1, Name: "a b"}); err != nil {
				t.Fatal(err)
			}
			run(t, k, func(sp beamstate.Provider) error {
				h := must(fn.Profile.Open(sp, profile2))
				err := h.Commit()
				tc.then(h)
				return errors.Join(err, h.Commit(), h.Commit())
			})
			if k.RPCs() != tc.want {
				t.Errorf("%s: %v; want %v", name, k.RPCs(), tc.want)
			}
		}
	})
}

// Text that a step leaves broken is found before the coder finds it.
func TestMigratedTextIsChecked(t *testing.T) {
	schema := migrate.New(2)
	migrate.AddStep(schema, 1, func(*testingpb.Profile) (*testingpb.Profile, error) {
		return &testingpb.Profile{StateSchemaVersion: 2, GivenName: "\xff"}, nil
	})
	fn := newAllFn()
	k := newKit(t, fn)
	k.SetBytes("k", "profile", []byte{0})
	run(t, k, func(sp beamstate.Provider) error {
		if err := must(fn.Profile.Open(sp, schema)).Commit(); !errors.Is(err, coders.ErrText) {
			t.Error(err)
		}
		return nil
	})
}

// This is why a cell must not be copied: another cell of the same id reads for itself, and the SDK
// does not return what was written since. If this test fails, the SDK has been fixed, and cells may
// be copied.
func TestTwoCellsOfOneIDLoseData(t *testing.T) {
	bothProviders(t, func(t *testing.T, _ *allFn, k *beamtest.Kit) {
		run(t, k, func(sp beamstate.Provider) error {
			var one, other Memory
			h := must(one.Open(sp, now))
			if err := errors.Join(h.Put("a", nil), h.Commit()); err != nil {
				return err
			}
			if n := must(other.Open(sp, now)).Len(); n != 0 {
				t.Errorf("another cell sees %d entries", n)
			}
			return nil
		})
	})
}

// copyOf copies a DoFn where go vet does not see it.
func copyOf(fn *allFn) *allFn {
	c := new(allFn)
	reflect.ValueOf(c).Elem().Set(reflect.ValueOf(fn).Elem())
	return c
}

// A copy of a cell is refused: a copy of a used cell, and a copy of a cell that Beam made on a
// worker, as for a DoFn that is passed by value.
func TestCopiedCellIsRefused(t *testing.T) {
	for name, original := range map[string]func(sp beamstate.Provider, tp timers.Provider) *allFn{
		"used": func(sp beamstate.Provider, tp timers.Provider) *allFn {
			fn := newAllFn()
			if errs := openAll(fn, sp, tp); errors.Join(errs...) != nil {
				t.Fatal(errs)
			}
			return fn
		},
		"made on a worker": func(beamstate.Provider, timers.Provider) *allFn {
			b, err := json.Marshal(newAllFn())
			fn := new(allFn)
			if err := errors.Join(err, json.Unmarshal(b, fn)); err != nil || fn.Profile.Key != "profile" {
				t.Fatalf("%s became %+v, %v", b, fn.Profile.Key, err)
			}
			return fn
		},
	} {
		fn := newAllFn()
		k := newKit(t, fn)
		if err := k.Run("k", func(sp beamstate.Provider, tp timers.Provider) error {
			fn := original(sp, tp)
			if errs := openAll(fn, sp, tp); errors.Join(errs...) != nil {
				t.Errorf("%s: the original: %v", name, errs)
			}
			for i, err := range openAll(copyOf(fn), sp, tp) {
				if !errors.Is(err, errCopied) {
					t.Errorf("%s: a copy of cell %d: %v", name, i, err)
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
	}
}

func openAll(fn *allFn, sp beamstate.Provider, tp timers.Provider) []error {
	_, memory := fn.Memory.Open(sp, now)
	_, cache := fn.ReplayCache.Open(sp, now)
	_, continuation := fn.Continuation.Open(sp)
	_, control := fn.Control.Open(sp)
	_, deferred := fn.Deferred.Open(sp).Events()
	_, profile := fn.Profile.Open(sp, profile1)
	return []error{memory, cache, continuation, control, deferred, profile, fn.TTL.Touch(sp, tp, window.GlobalWindow{}, now, time.Hour)}
}

// What go vet says of programs that copy cells.
func TestVetReportsCopies(t *testing.T) {
	const file = "testdata/copies/copies.go"
	out, err := exec.CommandContext(t.Context(), "go", "vet", "-copylocks", "./"+filepath.Dir(file)).CombinedOutput()
	if err == nil {
		t.Error("go vet finds nothing")
	}
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(source), "\n") {
		at := fmt.Sprintf("copies.go:%d:", i+1)
		if want := strings.HasSuffix(line, "// copies"); strings.Contains(string(out), at) != want {
			t.Errorf("go vet reports line %d: %v; want %v: %s", i+1, !want, want, line)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// A stored cell that is cut short at any place, or was written by another coder, reads as absent,
// because the SDK treats an io.EOF within a value as an absent value. The next Commit overwrites
// it. If this test fails, the SDK has been fixed.
func TestCutCellReadsAsAbsent(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		run(t, k, func(sp beamstate.Provider) error {
			h := must(fn.Memory.Open(sp, now))
			return errors.Join(h.Put("a", []byte("bcd")), h.Commit())
		})
		whole := k.Bytes("k", "memory")
		odd := [][]byte{{0x85}, []byte("text"), binary.BigEndian.AppendUint64(nil, 1<<50)}
		for n := 1; n < len(whole); n++ {
			odd = append(odd, whole[:n])
		}
		for _, b := range odd {
			k.SetBytes("k", "memory", b)
			run(t, k, func(sp beamstate.Provider) error {
				h := must(fn.Memory.Open(sp, now))
				if h.Len() > 0 {
					t.Errorf("%x has %d entries", b, h.Len())
				}
				return h.Commit()
			})
			if got := k.Bytes("k", "memory"); !bytes.Equal(got, b) {
				t.Errorf("%x was overwritten with %x, though nothing was put", b, got)
			}
			run(t, k, func(sp beamstate.Provider) error {
				h := must(fn.Memory.Open(sp, now))
				return errors.Join(h.Put("a", []byte("bcd")), h.Commit())
			})
			if got := k.Bytes("k", "memory"); !bytes.Equal(got, whole) {
				t.Errorf("%x became %x; want %x", b, got, whole)
			}
		}
	})
}

// Of a bag only the last event can be cut short. It is missing, and the others are read.
func TestCutBagLosesItsLastEvent(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		add := func(arrival int64) int {
			run(t, k, func(sp beamstate.Provider) error {
				h := fn.Deferred.Open(sp)
				return errors.Join(h.Add(&runtimepb.DeferredEvent{Arrival: arrival, Envelope: &pb.AgentEnvelope{}}), h.Commit())
			})
			return len(k.Bytes("k", "deferred"))
		}
		first, both := add(1), add(2)
		whole := k.Bytes("k", "deferred")
		for n := first; n < both; n++ {
			k.SetBytes("k", "deferred", whole[:n])
			run(t, k, func(sp beamstate.Provider) error {
				if events := must(fn.Deferred.Open(sp).Events()); len(events) != 1 || events[0].GetArrival() != 1 {
					t.Errorf("of %d bytes: %v", n, events)
				}
				return nil
			})
		}
	})
}

// noStamp has the method of a stamp, and not the field.
type noStamp struct{ *pb.ToolResult }

func (noStamp) GetStateSchemaVersion() uint32 { return 1 }

// unregistered is a message of a type that has no coder of this library.
type unregistered struct{ *testingpb.Profile }

type versionedFn[M migrate.Message] struct{ Cell Versioned[M] }

func (*versionedFn[M]) ProcessElement(beamstate.Provider, []byte, *pb.AgentEnvelope) {}

// A Versioned cell that cannot work is refused when the pipeline is built.
func TestVersionedIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		fn   any
		want string
	}{
		"no key":       {&versionedFn[*testingpb.Profile]{}, `"Cell" is not a Key for a Versioned cell: write state.Versioned[...]{Key: "customer"}`},
		"Beam's key":   {&versionedFn[*testingpb.Profile]{Versioned[*testingpb.Profile]{Key: "Cell"}}, `"Cell" is not a Key`},
		"an interface": {&versionedFn[migrate.Message]{Versioned[migrate.Message]{Key: "cell"}}, "name the message"},
		"no stamp":     {&versionedFn[noStamp]{Versioned[noStamp]{Key: "cell"}}, "no field uint32 state_schema_version"},
		"no coder":     {&versionedFn[unregistered]{Versioned[unregistered]{Key: "cell"}}, "call coders.Register((state.unregistered)(nil)) in an init function"},
		"a good one":   {&versionedFn[*testingpb.Profile]{Versioned[*testingpb.Profile]{Key: "cell"}}, ""},
	} {
		for where, build := range map[string]func() error{
			"beamtest": func() error { _, err := beamtest.New(tc.fn); return err },
			"beam": func() (err error) {
				defer func() {
					if p := recover(); p != nil {
						err = fmt.Errorf("panic: %v", p)
					}
				}()
				_, s := beam.NewPipelineWithRoot()
				keyed := beam.ParDo(s, func([]byte, func([]byte, *pb.AgentEnvelope)) {}, beam.Impulse(s))
				_, err = beam.TryParDo(s, tc.fn, keyed)
				return err
			},
		} {
			err := build()
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "RegisterType")) {
				t.Errorf("%s, %s: %v; want %q", name, where, err, tc.want)
			}
		}
	}
	if _, err := beamtest.New(versionedFn[*testingpb.Profile]{Versioned[*testingpb.Profile]{Key: "cell"}}); err == nil || !strings.Contains(err.Error(), "not a pointer") {
		t.Errorf("by value: %v", err)
	}
}

// panicky is a provider that panics at the first read.
type panicky struct {
	beamstate.Provider

	reads int
}

func (p *panicky) ReadValueState(id string) (any, []beamstate.Transaction, error) {
	if p.reads++; p.reads == 1 {
		panic("at the disco")
	}
	return p.Provider.ReadValueState(id)
}

// After a panic in Open was recovered, Open returns an error, and not the handle of the previous
// key.
func TestOpenThatPanics(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	run(t, k, func(sp beamstate.Provider) error {
		h := must(fn.Memory.Open(sp, now))
		return errors.Join(h.Put("of", []byte("k")), h.Commit())
	})
	if err := k.Run("other", func(sp beamstate.Provider, _ timers.Provider) error {
		sp = &panicky{Provider: sp}
		func() {
			defer func() { _ = recover() }()
			_, _ = fn.Memory.Open(sp, now)
		}()
		for range 2 {
			if h, err := fn.Memory.Open(sp, now); !errors.Is(err, errUnfinished) || h != nil {
				t.Errorf("after a panic: %v, %v", h, err)
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := k.Run("other", func(sp beamstate.Provider, _ timers.Provider) error {
		_, err := fn.Memory.Open(sp, now)
		return err
	}); err != nil {
		t.Errorf("in the next call: %v", err)
	}
}

// A second Open of a call returns the first's handle, and the next call a new one.
func TestOneHandleForACall(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		var last [5]any
		for range 3 {
			run(t, k, func(sp beamstate.Provider) error {
				open := func() [5]any {
					return [5]any{
						must(fn.Memory.Open(sp, now)), must(fn.ReplayCache.Open(sp, now)), must(fn.Continuation.Open(sp)),
						must(fn.Control.Open(sp)), fn.Deferred.Open(sp),
					}
				}
				first, second := open(), open()
				for i := range first {
					if first[i] != second[i] {
						t.Errorf("%T: two handles in a call", first[i])
					}
					if first[i] == last[i] {
						t.Errorf("%T: the handle of another call", first[i])
					}
				}
				last = first
				return nil
			})
		}
	})
}

// Now is that of the latest Open: an activation may run several events in one call.
func TestNowMoves(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	run(t, k, func(sp beamstate.Provider) error {
		for i, key := range []string{"first", "second"} {
			m := must(fn.Memory.Open(sp, now+int64(i)))
			c := must(fn.ReplayCache.Open(sp, now+int64(i)))
			if err := m.Put(key, nil); err != nil {
				return err
			}
			if _, err := c.Put(key, nil); err != nil {
				return err
			}
		}
		return errors.Join(must(fn.Memory.Open(sp, now+1)).Commit(), must(fn.ReplayCache.Open(sp, now+1)).Commit())
	})
	for i, e := range content(t, k, "memory", new(pb.MemoryBlob)).GetEntries() {
		if e.GetLastAccessMs() != now+int64(i) {
			t.Errorf("memory: %v", e)
		}
	}
	for i, e := range content(t, k, "llm_cache", new(pb.LlmCacheBlob)).GetEntries() {
		if e.GetCreatedAtMs() != now+int64(i) {
			t.Errorf("cache: %v", e)
		}
	}
}

// Everything that a cell writes carries the current version, whatever it was read with.
func TestWhatIsWrittenIsStamped(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for _, a := range accesses() {
			for name, stored := range map[string][]byte{"empty": nil, "without a stamp": {0}} {
				k.SetBytes("k", a.id, stored)
				run(t, k, func(sp beamstate.Provider) error { return errors.Join(a.mutate(fn, sp), a.commit(fn, sp)) })
				if got := content(t, k, a.id, a.empty()).GetStateSchemaVersion(); got != migrate.Current {
					t.Errorf("%s, %s: stamped %d", a.id, name, got)
				}
			}
			// A missing stamp alone does not cause a write.
			k.SetBytes("k", a.id, []byte{0})
			run(t, k, func(sp beamstate.Provider) error { return errors.Join(a.open(fn, sp), a.commit(fn, sp)) })
			if got := k.Bytes("k", a.id); !bytes.Equal(got, []byte{0}) {
				t.Errorf("%s: written for the stamp alone: %x", a.id, got)
			}
		}
	})
}

// State of a newer version, from the golden corpus, is neither read nor replaced. No other cell of
// the element is written, and the newer build finds the state as it was.
func TestFutureVersion(t *testing.T) {
	newer := migrate.New(1000)
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for id, blob := range map[string]string{
			"memory": "v1/memory_blob_future_version", "llm_cache": "v1/llm_cache_blob_future_version",
			"continuation": "v1/continuation_future_version", "control": "v1/key_control_future_version",
		} {
			a := accesses()[index(id)]
			b, err := golden.Lookup(blob)
			if err != nil {
				t.Fatal(err)
			}
			m := a.empty()
			if err := proto.Unmarshal(b.Bytes, m); err != nil {
				t.Fatal(err)
			}
			refuses(t, fn, k, a, m)

			// The build that wrote it reads it.
			var read migrate.Message
			run(t, k, func(sp beamstate.Provider) (err error) {
				switch id {
				case "memory":
					read, err = openNewer(sp, id, new(pb.MemoryBlob), newer)
				case "llm_cache":
					read, err = openNewer(sp, id, new(pb.LlmCacheBlob), newer)
				case "continuation":
					read, err = openNewer(sp, id, new(pb.Continuation), newer)
				default:
					read, err = openNewer(sp, id, new(runtimepb.KeyControl), newer)
				}
				return err
			})
			equal(t, m, read)
			k.SetBytes("k", id, nil)
		}

		// The continuation in a control has a stamp of its own.
		refuses(t, fn, k, accesses()[index("control")], &runtimepb.KeyControl{
			StateSchemaVersion: 1, Seq: 9, Continuation: &pb.Continuation{StateSchemaVersion: 2, Seq: 8},
		})
	})
}

func index(id string) int {
	for i, a := range accesses() {
		if a.id == id {
			return i
		}
	}
	panic(id)
}

func openNewer[M migrate.Message](sp beamstate.Provider, id string, _ M, schema *migrate.Schema) (M, error) {
	m, _, err := read[M](sp, id, schema)
	return m, err
}

// refuses checks that every access to a cell that holds m fails and changes nothing.
func refuses(t *testing.T, fn *allFn, k *beamtest.Kit, a access, m migrate.Message) {
	t.Helper()
	if err := k.SetValue("k", a.id, m); err != nil {
		t.Fatal(err)
	}
	before := k.Bytes("k", a.id)
	other := accesses()[(index(a.id)+1)%4]
	for name, call := range map[string]func(sp beamstate.Provider) error{
		"open":  func(sp beamstate.Provider) error { return a.open(fn, sp) },
		"again": func(sp beamstate.Provider) error { _ = a.open(fn, sp); return a.open(fn, sp) },
		"after another cell was written": func(sp beamstate.Provider) error {
			return errors.Join(other.mutate(fn, sp), other.commit(fn, sp), a.open(fn, sp))
		},
	} {
		err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error { return call(sp) })
		var future *migrate.FutureError
		if !errors.As(err, &future) || future.Current != migrate.Current || !strings.Contains(err.Error(), "cell "+a.id) {
			t.Errorf("%s, %s: %v", a.id, name, err)
		}
		if got := k.Bytes("k", a.id); !bytes.Equal(got, before) {
			t.Errorf("%s, %s: the cell holds %x, was %x", a.id, name, got, before)
		}
		if got := k.Bytes("k", other.id); got != nil {
			t.Errorf("%s, %s: cell %s was written", a.id, name, other.id)
		}
	}
}

// The state of a key is used by three releases, with one rollback. Each release reads the state,
// and writes its own form when it has something to write.
func TestVersions(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		touch := func(schema *migrate.Schema, change func(p *testingpb.Profile)) error {
			return k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
				h, err := fn.Profile.Open(sp, schema)
				if err != nil {
					return err
				}
				if change != nil {
					p, _ := h.Get()
					change(p)
					if err := h.Put(p); err != nil {
						return err
					}
				}
				return h.Commit()
			})
		}
		stored := func() *testingpb.Profile { return content(t, k, "profile", new(testingpb.Profile)) }

		v1 := &testingpb.Profile{StateSchemaVersion: 1, Name: "Given Family", Tags: []string{"tier=gold", "region=eu"}}
		v1.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
		if err := k.SetValue("k", "profile", v1); err != nil {
			t.Fatal(err)
		}
		before := k.Bytes("k", "profile")
		if err := touch(profile1, nil); err != nil || !bytes.Equal(k.Bytes("k", "profile"), before) {
			t.Fatalf("version 1 reading its own: %v, %x", err, k.Bytes("k", "profile"))
		}

		// A build of version 2 fails and so leaves version 1.
		if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
			h, err := fn.Profile.Open(sp, profile2)
			if p, _ := h.Get(); err != nil || p.GetFamilyName() != "Family" || p.GetName() != "" {
				t.Errorf("version 2 reads %v, %v", p, err)
			}
			return errAfterAll
		}); !errors.Is(err, errAfterAll) || !bytes.Equal(k.Bytes("k", "profile"), before) {
			t.Fatalf("version 2 failing: %v, %x", err, k.Bytes("k", "profile"))
		}

		// When it commits, it writes version 2, although nothing else changed.
		if err := touch(profile2, nil); err != nil {
			t.Fatal(err)
		}
		v2 := &testingpb.Profile{StateSchemaVersion: 2, GivenName: "Given", FamilyName: "Family", Tags: []string{"tier=gold", "region=eu"}}
		v2.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
		equal(t, v2, stored())

		// A build of version 1 refuses the state, and the bytes stay.
		before = k.Bytes("k", "profile")
		var future *migrate.FutureError
		if err := touch(profile1, nil); !errors.As(err, &future) || future.Found != 2 || !bytes.Equal(k.Bytes("k", "profile"), before) {
			t.Fatalf("version 1 reading version 2: %v, %x", err, k.Bytes("k", "profile"))
		}

		// Version 3, with a change of its own.
		if err := touch(profile3, func(p *testingpb.Profile) { p.Labels[0].Value = "platinum" }); err != nil {
			t.Fatal(err)
		}
		v3 := &testingpb.Profile{
			StateSchemaVersion: 3, GivenName: "Given", FamilyName: "Family",
			Labels: []*testingpb.Label{{Key: "tier", Value: "platinum"}, {Key: "region", Value: "eu"}},
		}
		v3.ProtoReflect().SetUnknown([]byte{0xa0, 0x1f, 0x2a})
		equal(t, v3, stored())

		// From version 1 to 3 at once; and a step that cannot.
		k.SetBytes("k", "profile", nil)
		if err := k.SetValue("k", "profile", &testingpb.Profile{Name: "Given Family", Tags: []string{"a=b"}}); err != nil {
			t.Fatal(err)
		}
		if err := touch(profile3, nil); err != nil {
			t.Fatal(err)
		}
		equal(t, &testingpb.Profile{
			StateSchemaVersion: 3, GivenName: "Given", FamilyName: "Family", Labels: []*testingpb.Label{{Key: "a", Value: "b"}},
		}, stored())
		if err := k.SetValue("k", "profile", &testingpb.Profile{StateSchemaVersion: 2, Tags: []string{"broken"}}); err != nil {
			t.Fatal(err)
		}
		before = k.Bytes("k", "profile")
		var step *migrate.StepError
		if err := touch(profile3, nil); !errors.As(err, &step) || step.From != 2 || !bytes.Equal(k.Bytes("k", "profile"), before) {
			t.Errorf("a step that fails: %v, %x", err, k.Bytes("k", "profile"))
		}
		var gap *migrate.GapError
		if err := touch(migrate.New(3), nil); !errors.As(err, &gap) || gap.From != 2 || !bytes.Equal(k.Bytes("k", "profile"), before) {
			t.Errorf("no step: %v, %x", err, k.Bytes("k", "profile"))
		}
	})
}

// The golden blobs of all versions pass through the cells unchanged: a commit after a change that
// is undone writes an equal value.
func TestGoldenBlobsThroughCells(t *testing.T) {
	for blob, id := range map[string]string{
		"memory_blob": "memory", "memory_blob_kind_bytes": "memory", "memory_blob_newer_entry": "memory",
		"llm_cache_blob": "llm_cache", "llm_cache_blob_digest_only": "llm_cache",
		"continuation": "continuation", "continuation_escalated": "continuation", "continuation_sleep": "continuation",
		"key_control": "control", "key_control_fresh": "control", "key_control_suspended": "control",
	} {
		b, err := golden.Lookup("v1/" + blob)
		if err != nil {
			t.Fatal(err)
		}
		want, err := b.Value()
		if err != nil {
			t.Fatal(err)
		}
		bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
			k.SetBytes("k", id, append(protowire.AppendVarint(nil, uint64(len(b.Bytes))), b.Bytes...))
			run(t, k, func(sp beamstate.Provider) error {
				switch id {
				case "memory":
					h := must(fn.Memory.Open(sp, now))
					return errors.Join(h.Put("probe", nil), wasThere(h.Delete("probe")), h.Commit())
				case "llm_cache":
					return must(fn.ReplayCache.Open(sp, now)).Commit()
				}
				if id == "control" {
					h := must(fn.Control.Open(sp))
					c, _ := h.Get()
					return errors.Join(h.Put(c), h.Commit())
				}
				h := must(fn.Continuation.Open(sp))
				c, _ := h.Get()
				return errors.Join(h.Put(c), h.Commit())
			})
			equal(t, want, content(t, k, id, want.ProtoReflect().New().Interface()))
		})
	}
}

func wasThere(ok bool) error {
	if !ok {
		return errors.New("nothing there")
	}
	return nil
}

func TestPutRefuses(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	kept := &pb.Continuation{Seq: 1, Adapter: "kept"}
	for name, tc := range map[string]struct {
		put func(sp beamstate.Provider) error
		is  error
	}{
		"nil": {func(sp beamstate.Provider) error { return must(fn.Continuation.Open(sp)).Put(nil) }, coders.ErrNil},
		"bad text": {func(sp beamstate.Provider) error {
			return must(fn.Continuation.Open(sp)).Put(&pb.Continuation{Adapter: "\xff"})
		}, coders.ErrText},
		"another version": {func(sp beamstate.Provider) error {
			return must(fn.Continuation.Open(sp)).Put(&pb.Continuation{StateSchemaVersion: 2})
		}, ErrVersion},
		"an older version": {func(sp beamstate.Provider) error {
			return must(fn.Profile.Open(sp, profile2)).Put(&testingpb.Profile{StateSchemaVersion: 1})
		}, ErrVersion},
		"a newer continuation in a control": {func(sp beamstate.Provider) error {
			err := must(fn.Control.Open(sp)).Put(&runtimepb.KeyControl{Continuation: &pb.Continuation{StateSchemaVersion: 2}})
			if _, ok := errors.AsType[*migrate.FutureError](err); !ok {
				t.Errorf("%v", err)
			}
			return coders.ErrText
		}, coders.ErrText},
		"bad text, deep inside": {func(sp beamstate.Provider) error {
			return must(fn.Control.Open(sp)).Put(&runtimepb.KeyControl{Pending: []*pb.ToolIntent{{}, {ToolName: "\xff"}}})
		}, coders.ErrText},
		"bad text in a message of the user's": {func(sp beamstate.Provider) error {
			return must(fn.Profile.Open(sp, profile2)).Put(&testingpb.Profile{Labels: []*testingpb.Label{{Key: "\xff"}}})
		}, coders.ErrText},
		"bad text in a deferred event": {func(sp beamstate.Provider) error {
			return fn.Deferred.Open(sp).Add(&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{
				Payload: &pb.AgentEnvelope_ToolResult{ToolResult: &pb.ToolResult{ErrorMessage: "\xff"}},
			}})
		}, coders.ErrText},
		"a deferred event without an envelope": {func(sp beamstate.Provider) error {
			return fn.Deferred.Open(sp).Add(&runtimepb.DeferredEvent{Arrival: 1})
		}, coders.ErrNil},
		"no deferred event": {func(sp beamstate.Provider) error { return fn.Deferred.Open(sp).Add(nil) }, coders.ErrNil},
		"a bad memory key":  {func(sp beamstate.Provider) error { return must(fn.Memory.Open(sp, now)).Put("\xff", nil) }, memory.ErrKey},
		"a value too large": {func(sp beamstate.Provider) error {
			return must(fn.Memory.Open(sp, now)).Put("k", make([]byte, memory.MaxValueBytes+1))
		}, memory.ErrOverflow},
		"a bad cache key": {func(sp beamstate.Provider) error {
			_, err := must(fn.ReplayCache.Open(sp, now)).Put("", nil)
			return err
		}, replay.ErrKey},
	} {
		run(t, k, func(sp beamstate.Provider) error {
			h := must(fn.Continuation.Open(sp))
			if err := h.Put(proto.CloneOf(kept)); err != nil {
				return err
			}
			if err := tc.put(sp); !errors.Is(err, tc.is) {
				t.Errorf("%s: %v; want %v", name, err, tc.is)
			}
			// Nothing has changed, and all else can be written.
			for _, commit := range []func() error{
				h.Commit, must(fn.Memory.Open(sp, now)).Commit, must(fn.ReplayCache.Open(sp, now)).Commit, must(fn.Control.Open(sp)).Commit,
				must(fn.Profile.Open(sp, profile2)).Commit, fn.Deferred.Open(sp).Commit,
			} {
				if err := commit(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			return nil
		})
		for _, id := range []string{"memory", "llm_cache", "control", "profile", "deferred"} {
			if b := k.Bytes("k", id); b != nil {
				t.Errorf("%s: cell %s holds %x", name, id, b)
			}
		}
		if got := content(t, k, "continuation", new(pb.Continuation)); got.GetAdapter() != "kept" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// Two schemas in a call are a bug: the second would silently be ignored.
func TestTwoSchemasInACall(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	run(t, k, func(sp beamstate.Provider) error {
		_ = must(fn.Profile.Open(sp, profile2))
		if _, err := fn.Profile.Open(sp, profile3); err == nil {
			t.Error("accepted")
		}
		_, err := fn.Profile.Open(sp, profile2)
		return err
	})
}

func TestMigrated(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for stored, want := range map[*testingpb.Profile]uint32{
			nil: 0, {StateSchemaVersion: 3}: 0, {StateSchemaVersion: 2}: 2, {StateSchemaVersion: 1}: 1, {}: 1,
		} {
			k.SetBytes("k", "profile", nil)
			if stored != nil {
				if err := k.SetValue("k", "profile", stored); err != nil {
					t.Fatal(err)
				}
			}
			run(t, k, func(sp beamstate.Provider) error {
				h := must(fn.Profile.Open(sp, profile3))
				for range 2 { // before and after it was written
					if from, ok := h.Migrated(); from != want || ok != (want > 0) {
						t.Errorf("%v: Migrated() = %d, %v", stored, from, ok)
					}
					if err := h.Commit(); err != nil {
						return err
					}
				}
				return nil
			})
		}
		run(t, k, func(sp beamstate.Provider) error {
			if from, ok := must(fn.Memory.Open(sp, now)).Migrated(); ok {
				t.Errorf("an empty memory: %d", from)
			}
			return nil
		})
	})
}

func TestWrongTotalIsWrittenRight(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	lie := &pb.MemoryBlob{StateSchemaVersion: 1, Entries: []*pb.MemoryEntry{{Key: "k", Value: []byte("value")}}, TotalValueBytes: 99}
	if err := k.SetValue("k", "memory", lie); err != nil {
		t.Fatal(err)
	}
	run(t, k, func(sp beamstate.Provider) error { return must(fn.Memory.Open(sp, now)).Commit() })
	if got := content(t, k, "memory", new(pb.MemoryBlob)).GetTotalValueBytes(); got != 5 {
		t.Errorf("total %d; want 5", got)
	}
}

func TestDeferred(t *testing.T) {
	event := func(arrival int64) *runtimepb.DeferredEvent {
		return &runtimepb.DeferredEvent{Arrival: arrival, Envelope: &pb.AgentEnvelope{EventTimeMs: now + arrival}}
	}
	arrivals := func(h *DeferredHandle) (list []int64) {
		for _, e := range must(h.Events()) {
			list = append(list, e.GetArrival())
		}
		return list
	}
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		add := func(h *DeferredHandle, list ...int64) {
			for _, arrival := range list {
				if err := h.Add(event(arrival)); err != nil {
					t.Fatal(err)
				}
			}
		}
		for name, tc := range map[string]struct {
			stored []int64
			call   func(h *DeferredHandle) error
			want   []int64
			rpcs   beamtest.Counts
		}{
			"nothing":       {[]int64{1}, func(h *DeferredHandle) error { return h.Commit() }, []int64{1}, beamtest.Counts{}},
			"add, unread":   {[]int64{5}, func(h *DeferredHandle) error { add(h, 3); return h.Commit() }, []int64{3, 5}, beamtest.Counts{Appends: 2}},
			"add two":       {nil, func(h *DeferredHandle) error { add(h, 2, 1); return h.Commit() }, []int64{1, 2}, beamtest.Counts{Appends: 4}},
			"not committed": {[]int64{5}, func(h *DeferredHandle) error { add(h, 3); h.Clear(); add(h, 4); return nil }, []int64{5}, beamtest.Counts{}},
			"read": {[]int64{2, 1}, func(h *DeferredHandle) error {
				equal(t, []int64{1, 2}, arrivals(h))
				equal(t, []int64{1, 2}, arrivals(h))
				return h.Commit()
			}, []int64{1, 2}, beamtest.Counts{Reads: 1}},
			"add, read, add": {[]int64{2}, func(h *DeferredHandle) error {
				add(h, 3)
				equal(t, []int64{2, 3}, arrivals(h))
				add(h, 1)
				equal(t, []int64{1, 2, 3}, arrivals(h))
				return h.Commit()
			}, []int64{1, 2, 3}, beamtest.Counts{Reads: 1, Appends: 4}},
			"add, commit, read": {[]int64{2}, func(h *DeferredHandle) error {
				add(h, 1)
				err := h.Commit()
				equal(t, []int64{1, 2}, arrivals(h))
				add(h, 3)
				equal(t, []int64{1, 2, 3}, arrivals(h))
				return errors.Join(err, h.Commit(), h.Commit())
			}, []int64{1, 2, 3}, beamtest.Counts{Reads: 1, Appends: 4}},
			"clear, unread": {[]int64{1, 2}, func(h *DeferredHandle) error {
				h.Clear()
				equal(t, []int64(nil), arrivals(h))
				return errors.Join(h.Commit(), h.Commit())
			}, nil, beamtest.Counts{Clears: 1}},
			"clear what is empty": {nil, func(h *DeferredHandle) error {
				_ = arrivals(h)
				h.Clear()
				return h.Commit()
			}, nil, beamtest.Counts{Reads: 1}},
			"drain, and keep the rest": {[]int64{1, 2, 3}, func(h *DeferredHandle) error {
				all := must(h.Events())
				h.Clear()
				for _, e := range all[1:] {
					if err := h.Add(e); err != nil {
						return err
					}
				}
				equal(t, []int64{2, 3}, arrivals(h))
				return h.Commit()
			}, []int64{2, 3}, beamtest.Counts{Reads: 1, Clears: 1, Appends: 4}},
			"clear what was added": {nil, func(h *DeferredHandle) error {
				add(h, 1)
				err := h.Commit()
				h.Clear()
				return errors.Join(err, h.Commit())
			}, nil, beamtest.Counts{Clears: 1, Appends: 2}},
		} {
			k.SetBytes("k", "deferred", nil)
			for _, arrival := range tc.stored {
				if err := k.SetValue("k", "deferred", event(arrival)); err != nil {
					t.Fatal(err)
				}
			}
			run(t, k, func(sp beamstate.Provider) error { return tc.call(fn.Deferred.Open(sp)) })
			if k.RPCs() != tc.rpcs {
				t.Errorf("%s: %v; want %v", name, k.RPCs(), tc.rpcs)
			}
			run(t, k, func(sp beamstate.Provider) error {
				if got := arrivals(fn.Deferred.Open(sp)); !cmp.Equal(got, tc.want) {
					t.Errorf("%s: the bag holds %v; want %v", name, got, tc.want)
				}
				return nil
			})
		}
	})
}

func TestReadOfDeferredFails(t *testing.T) {
	fn := newAllFn()
	k := newKit(t, fn)
	k.FailAt(1, nil)
	if err := k.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
		_, err := fn.Deferred.Open(sp).Events()
		return err
	}); !errors.Is(err, beamtest.ErrInjected) {
		t.Error(err)
	}
}

// Two windows of a key are two keys.
func TestStateIsPerWindow(t *testing.T) {
	bothProviders(t, func(t *testing.T, fn *allFn, k *beamtest.Kit) {
		for hour := range 2 {
			k.Window = intervalWindow(hour)
			run(t, k, func(sp beamstate.Provider) error {
				m := must(fn.Memory.Open(sp, now))
				if m.Len() != 0 {
					t.Errorf("window %d begins with %d entries", hour, m.Len())
				}
				return errors.Join(m.Put(fmt.Sprint(hour), nil), m.Commit())
			})
		}
		k.Window = intervalWindow(0)
		run(t, k, func(sp beamstate.Provider) error {
			if _, ok := must(fn.Memory.Open(sp, now)).Get("0"); !ok {
				t.Error("the first window has lost its state")
			}
			return nil
		})
	})
}

// Running jobs know the ids, types and kinds of the cells.
func TestCellsAreWhatBeamIsTold(t *testing.T) {
	var cells []string
	for _, field := range reflect.ValueOf(*newAllFn()).Fields() {
		ps, _ := reflect.TypeAssert[beamstate.PipelineState](field)
		line := fmt.Sprintf("%s %v %d", ps.StateKey(), ps.CoderType(), ps.StateType())
		if ps.KeyCoderType() != nil {
			line += " map"
		}
		if pt, ok := reflect.TypeAssert[timers.PipelineTimer](field); ok {
			line += fmt.Sprint(" ", pt.Timers())
		}
		cells = append(cells, line)
	}
	equal(t, []string{
		"memory *beamagentspb.MemoryBlob 0",
		"llm_cache *beamagentspb.LlmCacheBlob 0",
		"continuation *beamagentspb.Continuation 0",
		"control *beamagentsruntimepb.KeyControl 0",
		"deferred *beamagentsruntimepb.DeferredEvent 1",
		"profile *beamagentstestingpb.Profile 0",
		"ttl int64 0 map[agent:1]",
	}, cells)
}
