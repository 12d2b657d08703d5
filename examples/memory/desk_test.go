package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// A customer as version 1 wrote it: its length, then the message. The bytes are literal, because no
// current code may change them.
var version1 = unhex("2d" + "0801" + "1227" + hex.EncodeToString([]byte("Mill Street Bakery <orders@bakery.test>")) + "1829")

func unhex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

// desk is the DoFn under test, with what it has emitted.
type desk struct {
	*beamtest.Kit
	t       *testing.T
	fn      *deskFn
	emitted []string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	fn := newDeskFn()
	kit, err := beamtest.New(fn)
	if err != nil {
		t.Fatal(err)
	}
	return &desk{Kit: kit, t: t, fn: fn}
}

func (d *desk) emit(et beam.EventTime, line string) {
	d.emitted = append(d.emitted, fmt.Sprint(et.Milliseconds(), " ", line))
}

func (d *desk) errs(rec *pb.ActivationErrorRecord) {
	l, err := deadletter.Read(rec)
	if err != nil {
		d.t.Error(err)
	}
	d.emitted = append(d.emitted, fmt.Sprintf("%s %s: %s: %s", l.EntityKey, l.Reason, l.Code, l.Error))
}

// element returns the call for an event of a customer at a time in ms.
func (d *desk) element(ms int64, e map[string]any) beamtest.Call {
	d.t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		d.t.Fatal(err)
	}
	env := &pb.AgentEnvelope{
		EntityKey: []byte("bakery"), EventTimeMs: ms,
		Payload: &pb.AgentEnvelope_ExternalEvent{ExternalEvent: b},
	}
	return func(sp beamstate.Provider, tp timers.Provider) error {
		return d.fn.ProcessElement(window.GlobalWindow{}, sp, tp, env.EntityKey, env, d.emit, d.errs)
	}
}

// run runs a call that must succeed.
func (d *desk) run(call beamtest.Call) {
	d.t.Helper()
	if err := d.Run("bakery", call); err != nil {
		d.t.Fatal(err)
	}
}

// fire fires the timers that are due at a time in ms.
func (d *desk) fire(ms int64) error {
	return d.Fire(ms, func(t beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		return d.fn.forget(t.EventTime, sp, tp, []byte(t.Key), t.Context(), d.emit)
	})
}

// cells returns the bytes of all cells of the customer.
func (d *desk) cells() map[string]string {
	all := map[string]string{}
	for _, id := range []string{"memory", customerCell, "ttl"} {
		all[id] = string(d.Bytes("bakery", id))
	}
	return all
}

func (d *desk) want(emitted ...string) {
	d.t.Helper()
	if diff := cmp.Diff(emitted, d.emitted); diff != "" {
		d.t.Errorf("emitted (-want +got):\n%s", diff)
	}
}

// topics returns the topics in memory, the least recently used first.
func (d *desk) topics() (topics string) {
	d.t.Helper()
	d.run(func(sp beamstate.Provider, _ timers.Provider) error {
		m, err := d.fn.Memory.Open(sp, 0)
		if err == nil {
			topics = strings.Join(slices.Collect(m.Keys()), ", ")
		}
		return err
	})
	return topics
}

var idleMS = idle.Milliseconds()

func TestEviction(t *testing.T) {
	d := newDesk(t)
	for i, topic := range []string{"a", "b", "c", "a", "d"} {
		d.run(d.element(int64(i), map[string]any{"topic": topic, "attachment_kb": 300}))
	}
	// One read for each of three cells. The first write of a key costs as much as every other
	// write.
	if got, want := d.RPCs(), (beamtest.Counts{Reads: 3, Clears: 3, Appends: 5}); got != want {
		t.Errorf("%v; want %v", got, want)
	}
	// A was used again after b and c, so b is evicted.
	if got := d.topics(); got != "c, a, d" {
		t.Errorf("remembered: %s", got)
	}
	if err := d.fire(4 + idleMS); err != nil {
		t.Fatal(err)
	}
	d.want(`2592000004 {"customer":"bakery","name":"","address":"","events":5,"migrated_from":0,` +
		`"evicted":1,"evicted_bytes":307200,"topics":["c","a","d"],"topic_bytes":921600}`)
}

func TestStateOfVersion1IsMigratedOnFirstRead(t *testing.T) {
	d := newDesk(t)
	d.SetBytes("bakery", customerCell, version1)

	// An event that fails changes nothing, not even the version of the state.
	d.run(d.element(0, map[string]any{"topic": "oven", "attachment_kb": 2000}))
	if got := d.Bytes("bakery", customerCell); string(got) != string(version1) {
		t.Errorf("the cell holds %x", got)
	}

	d.run(d.element(1, map[string]any{"topic": "oven"}))
	want := &supportpb.Customer{
		StateSchemaVersion: 2, Name: "Mill Street Bakery", Address: "orders@bakery.test", Events: 42, MigratedFrom: 1,
	}
	got := new(supportpb.Customer)
	if err := proto.Unmarshal(d.Bytes("bakery", customerCell)[1:], got); err != nil || !proto.Equal(got, want) {
		t.Errorf("the cell holds %v, %v; want %v", got, err, want)
	}
}

// For a previous build, the program writes the same bytes as that build.
func TestLeaveWritesTheBytesOfVersion1(t *testing.T) {
	d := newDesk(t)
	d.run(d.element(0, map[string]any{"stored": version1[1:]}))
	if got := d.Bytes("bakery", customerCell); string(got) != string(version1) {
		t.Errorf("the cell holds %x; want %x", got, version1)
	}
	// If the event is delivered again after a newer build has read the state, the stored state
	// stays.
	d.run(d.element(1, map[string]any{"topic": "oven"}))
	before := d.cells()
	d.run(d.element(0, map[string]any{"stored": version1[1:]}))
	if diff := cmp.Diff(before, d.cells()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	d.want()
}

// Whichever RPC fails, the stored bytes stay as they were, and the retry does the same as a first
// try that succeeds.
func TestReplayAfterAFailure(t *testing.T) {
	for name, e := range map[string]map[string]any{
		"topic":      {"topic": "oven", "from": "Bakery <b@bakery.test>", "attachment_kb": 700},
		"overflow":   {"topic": "oven", "attachment_kb": 2000},
		"no topic":   {"note": "about nothing"},
		"stored":     {"stored": version1[1:]},
		"not stored": {"stored": []byte("no message")},
	} {
		t.Run(name, func(t *testing.T) {
			fresh := func() *desk {
				d := newDesk(t)
				d.SetBytes("bakery", customerCell, version1)
				d.run(d.element(0, map[string]any{"topic": "mixer", "attachment_kb": 600}))
				return d
			}
			once := fresh()
			once.run(once.element(1, e))
			rpcs := once.RPCs().Total()

			for n := 1; n <= rpcs; n++ {
				d := fresh()
				before := d.cells()
				d.FailAt(n, nil)
				if err := d.Run("bakery", d.element(1, e)); !errors.Is(err, beamtest.ErrInjected) {
					t.Fatalf("RPC %d: %v", n, err)
				}
				if diff := cmp.Diff(before, d.cells()); diff != "" {
					t.Errorf("RPC %d: (-want +got):\n%s", n, diff)
				}
				d.emitted = nil // a runner drops the outputs of a failed bundle
				d.run(d.element(1, e))
				d.want(once.emitted...)
				if !maps.Equal(once.cells(), d.cells()) {
					t.Errorf("RPC %d: the retry left other state", n)
				}
			}

			// The bundle fails after the element, when all RPCs are done.
			d := fresh()
			if err := d.Replay("bakery", beamtest.Dropped, d.element(1, e)); err != nil {
				t.Fatal(err)
			}
			d.want(slices.Concat(once.emitted, once.emitted)...)
			if !maps.Equal(once.cells(), d.cells()) {
				t.Error("the replay left other state")
			}
		})
	}
}

// State of a newer build fails the bundle, emits nothing and is not changed.
func TestNewerVersionIsUntouched(t *testing.T) {
	d := newDesk(t)
	d.run(d.element(0, map[string]any{"topic": "oven"}))
	if err := d.SetValue("bakery", customerCell, &supportpb.Customer{StateSchemaVersion: 3}); err != nil {
		t.Fatal(err)
	}
	before := d.cells()
	err := d.Run("bakery", d.element(1, map[string]any{"topic": "mixer"}))
	future, ok := errors.AsType[*migrate.FutureError](err)
	if !ok || future.Found != 3 || future.Current != 2 {
		t.Errorf("element: %v", err)
	}
	if err := d.fire(idleMS); !errors.As(err, &future) {
		t.Errorf("timer: %v", err)
	}
	if diff := cmp.Diff(before, d.cells()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// An event cannot bring such state in either.
	d.run(d.element(2, map[string]any{"stored": unhex("0803")}))
	d.want("bakery function_error: error: migrate: support.v1.Customer is of schema version 3 and this build reads up to 2: " +
		"run the newer build; the stored state is untouched")
}

func TestIdleCustomerIsForgotten(t *testing.T) {
	d := newDesk(t)
	d.run(d.element(0, map[string]any{"topic": "oven", "note": "error 12"}))
	d.run(d.element(100, map[string]any{"topic": "oven", "note": "error 13"}))
	d.run(d.element(50, map[string]any{"topic": "mixer"})) // late
	if err := d.fire(99 + idleMS); err != nil {
		t.Fatal(err)
	}
	d.want()
	// The bundle fails in between, and the timer fires again.
	d.FailAt(4, nil)
	if err := d.fire(100 + idleMS); !errors.Is(err, beamtest.ErrInjected) {
		t.Fatal(err)
	}
	if err := d.fire(100 + idleMS); err != nil {
		t.Fatal(err)
	}
	d.want(`2592000100 {"customer":"bakery","name":"","address":"","events":3,"migrated_from":0,` +
		`"evicted":0,"evicted_bytes":0,"topics":["oven","mixer"],"topic_bytes":8}`)
	if want := map[string]string{"memory": "", customerCell: "", "ttl": ""}; !maps.Equal(want, d.cells()) {
		t.Errorf("left in the cells: %q", d.cells())
	}
	if timers := d.Timers("bakery"); len(timers) > 0 {
		t.Errorf("still set: %v", timers)
	}
	// The customer comes back and has no state.
	d.run(d.element(200+idleMS, map[string]any{"topic": "oven"}))
	if got := d.topics(); got != "oven" {
		t.Errorf("remembered: %s", got)
	}
}

// This test fails if the version is raised without a migration step.
func TestEveryVersionHasAStep(t *testing.T) {
	if gaps := customers.Gaps((*supportpb.Customer)(nil)); gaps != nil {
		t.Error(gaps)
	}
}

func TestSplitContact(t *testing.T) {
	for contact, want := range map[string][2]string{
		"Mill Street Bakery <orders@bakery.test>": {"Mill Street Bakery", "orders@bakery.test"},
		"Roxy":                   {"Roxy", ""},
		"<box-office@roxy.test>": {"", "box-office@roxy.test"},
		" Roxy < box@roxy.test":  {"Roxy", "box@roxy.test"},
		"":                       {"", ""},
	} {
		if name, address := splitContact(contact); name != want[0] || address != want[1] {
			t.Errorf("%q: %q, %q; want %q", contact, name, address, want)
		}
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	for event, want := range map[string]string{
		``:                        "EOF",
		`[]`:                      "cannot unmarshal array",
		`{"topik":"oven"}`:        `unknown field "topik"`,
		`{"attachment_kb":-1}`:    "attachment_kb is -1",
		`{"attachment_kb":10241}`: "the range is 0 to 10240",
		`{"attachment_kb":1e99}`:  "cannot unmarshal number",
		`{"stored":"no base64"}`:  "illegal base64",
	} {
		if _, err := decodeEvent([]byte(event)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", event, err, want)
		}
	}
}
