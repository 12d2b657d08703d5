package state

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/beamagents/beamagents-go/golden/handover"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// What is in the file of cellWriter is known to the tests of all releases, too.
var cellWriter = handover.Writer{Package: "pkg/state", Test: "TestWriteCells", Flag: "write-cells", Part: "cells"}

var writeCells = flag.String(cellWriter.Flag, "", "folder to write the state of each cell to, for a later build to read")

const cellsFile = "cells.json"

// writtenCell is a cell as a runner holds it, and what is in it: the text form of its
// message, or of each item of a bag, or a number.
type writtenCell struct {
	Cell   string   `json:"cell"`
	Bytes  []byte   `json:"bytes"`
	Values []string `json:"values"`
}

// A later build runs TestWriteCells in a process of its own, to get the state of this build. So
// does make freeze.
func TestWriteCells(t *testing.T) {
	dir := *writeCells
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, cellsFile)
	b, err := json.MarshalIndent(stateOfThisBuild(t), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(b, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	readCells(t, file)
}

// stateOfThisBuild is what the cells write when they are used.
func stateOfThisBuild(t *testing.T) (all []writtenCell) {
	t.Helper()
	fn := newAllFn()
	k := newKit(t, fn)
	continuation := &pb.Continuation{
		Seq: 7, StepIndex: 2, PendingIntentIds: []string{"a", "b"}, Adapter: "triage", Snapshot: []byte("\x00snapshot"),
		SuspendedAtMs: now, DeadlineMs: now + hour, Escalations: 1,
	}
	event := func(arrival int64) *runtimepb.DeferredEvent {
		return &runtimepb.DeferredEvent{Arrival: arrival, Envelope: &pb.AgentEnvelope{
			EntityKey: []byte("k"), EventTimeMs: now + arrival, Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: []byte("{}")},
		}}
	}
	control := &runtimepb.KeyControl{
		Seq: 8, Continuation: proto.CloneOf(continuation), Pending: []*pb.ToolIntent{{IntentId: "a", ToolName: "t", Seq: 7}},
		ExpiredIntentIds: []string{"b"}, TtlMarkMs: now + hour, NextArrival: 3, DeferredCount: 2, DeferredBytes: 60, StartedMs: now,
	}
	control.Continuation.StateSchemaVersion = migrate.Current
	if err := k.Run("k", func(sp beamstate.Provider, tp timers.Provider) error {
		m, c := must(fn.Memory.Open(sp, now)), must(fn.ReplayCache.Open(sp, now))
		for i, key := range []string{"first", "second", "clé"} {
			if err := m.Put(key, []byte{byte(i), 0xff}); err != nil {
				return err
			}
			if _, err := c.Put(key, []byte(key)); err != nil {
				return err
			}
		}
		m.Get("first")
		if _, err := c.Put("too large", make([]byte, 200_000)); err != nil {
			return err
		}
		d := fn.Deferred.Open(sp)
		for _, err := range []error{
			m.Commit(), c.Commit(),
			must(fn.Continuation.Open(sp)).Put(proto.CloneOf(continuation)), must(fn.Continuation.Open(sp)).Commit(),
			must(fn.Control.Open(sp)).Put(proto.CloneOf(control)), must(fn.Control.Open(sp)).Commit(),
			d.Add(event(2)), d.Add(event(1)), d.Commit(),
			fn.TTL.Touch(sp, tp, window.GlobalWindow{}, now, ttl),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	text := func(m proto.Message) string { return prototext.MarshalOptions{}.Format(m) }
	continuation.StateSchemaVersion, control.StateSchemaVersion = migrate.Current, migrate.Current
	for _, c := range []writtenCell{
		{Cell: memoryID, Values: []string{text(content(t, k, memoryID, new(pb.MemoryBlob)))}},
		{Cell: replayCacheID, Values: []string{text(content(t, k, replayCacheID, new(pb.LlmCacheBlob)))}},
		{Cell: continuationID, Values: []string{text(continuation)}},
		{Cell: controlID, Values: []string{text(control)}},
		{Cell: deferredID, Values: []string{text(event(1)), text(event(2))}},
		{Cell: ttlID, Values: []string{strconv.FormatInt(idleAt(now, ttl), 10)}},
	} {
		c.Bytes = k.Bytes("k", c.Cell)
		all = append(all, c)
	}
	return all
}

// readCells reads what another build wrote through the cells of this one, writes it again,
// and reads that.
func readCells(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cells []writtenCell
	if err := json.Unmarshal(b, &cells); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	if len(cells) < 6 {
		t.Fatalf("%s: only %d cells", file, len(cells))
	}
	for _, c := range cells {
		if err := readCell(t, c); err != nil {
			t.Errorf("%s: cell %s: %v", file, c.Cell, err)
		}
	}
}

func readCell(t *testing.T, c writtenCell) error {
	t.Helper()
	fn := newAllFn()
	k := newKit(t, fn)
	k.SetBytes("k", c.Cell, c.Bytes)
	for range 2 { // as it was written, and as this build has written it
		if err := k.Run("k", func(sp beamstate.Provider, tp timers.Provider) error { return checkCell(fn, sp, tp, c) }); err != nil {
			return err
		}
	}
	return nil
}

// checkCell compares a cell with the values that were put into it, brought to the current
// version, and writes it again.
func checkCell(fn *allFn, sp beamstate.Provider, tp timers.Provider, c writtenCell) error {
	switch c.Cell {
	case memoryID:
		h, err := fn.Memory.Open(sp, now)
		if err != nil {
			return err
		}
		return firstError(same(c, 0, new(pb.MemoryBlob), h.Blob()), h.write(h.Blob()))
	case replayCacheID:
		h, err := fn.ReplayCache.Open(sp, now)
		if err != nil {
			return err
		}
		return firstError(same(c, 0, new(pb.LlmCacheBlob), h.Blob()), h.write(h.Blob()))
	case continuationID:
		h, err := fn.Continuation.Open(sp)
		if err != nil {
			return err
		}
		m, _ := h.Get()
		return firstError(same(c, 0, new(pb.Continuation), m), h.Put(m), h.Commit())
	case controlID:
		h, err := fn.Control.Open(sp)
		if err != nil {
			return err
		}
		m, _ := h.Get()
		return firstError(same(c, 0, new(runtimepb.KeyControl), m), h.Put(m), h.Commit())
	case deferredID:
		h := fn.Deferred.Open(sp)
		events, err := h.Events()
		if err != nil {
			return err
		}
		if len(events) != len(c.Values) {
			return fmt.Errorf("%d events; want %d", len(events), len(c.Values))
		}
		h.Clear()
		for i, e := range events {
			if err := firstError(same(c, i, new(runtimepb.DeferredEvent), e), h.Add(e)); err != nil {
				return err
			}
		}
		return h.Commit()
	case ttlID:
		m, err := fn.TTL.mark(sp)
		if err != nil {
			return err
		}
		if got := strconv.FormatInt(m.ms, 10); got != c.Values[0] {
			return fmt.Errorf("mark %s; want %s", got, c.Values[0])
		}
		return firstError(m.value.Clear(sp), m.value.Write(sp, m.ms))
	}
	return errors.New("no such cell")
}

// same compares a message with the text of what was put, which is brought to the current
// version if it has one. Want is an empty message.
func same(c writtenCell, i int, want, got proto.Message) error {
	if err := prototext.Unmarshal([]byte(c.Values[i]), want); err != nil {
		return err
	}
	if versioned, ok := want.(migrate.Message); ok {
		current, err := migrate.ToCurrent(migrate.Stored(), versioned)
		if err != nil {
			return err
		}
		want = current
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		return fmt.Errorf("(-put +found):\n%s", diff)
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// The check fails if a cell cannot be read any more, or is read with another value.
func TestReadCellsCanFail(t *testing.T) {
	for _, c := range stateOfThisBuild(t) {
		if err := readCell(t, c); err != nil {
			t.Errorf("%s: %v", c.Cell, err)
		}
		for name, fault := range map[string]func(c *writtenCell){
			"another value":  func(c *writtenCell) { c.Values = []string{strings.Replace(c.Values[0], "7", "6", 1)} },
			"bytes cut off":  func(c *writtenCell) { c.Bytes = c.Bytes[:len(c.Bytes)-1] },
			"nothing stored": func(c *writtenCell) { c.Bytes = nil },
			"another cell":   func(c *writtenCell) { c.Cell = "another" },
		} {
			broken := c
			fault(&broken)
			if err := readCell(t, broken); err == nil {
				t.Errorf("%s, %s: passes", c.Cell, name)
			}
		}
	}
}

// This build reads what each release has stored.
func TestCellsOfReleases(t *testing.T) { cellWriter.Frozen(t, readCells) }

// Older builds, which are built from the repository, hand their state over to this build: each
// release whose tag is in the repository, and the last commit that is not the one under test.
func TestHandover(t *testing.T) { cellWriter.Built(t, readCells) }
