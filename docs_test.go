package beamagents_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/state"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// The page is what somebody reads at night: it has every reason, with its codes in order.
func TestDeadLetterPageIsComplete(t *testing.T) {
	page := readText(t, "docs/dead-letters.md")
	_, table, _ := strings.Cut(page, "## Reasons and codes")
	rows := strings.Count(table, "\n| `")
	if rows != len(deadletter.Reasons()) {
		t.Errorf("%d rows, but %d reasons", rows, len(deadletter.Reasons()))
	}
	for _, r := range deadletter.Reasons() {
		var words []string
		for _, c := range deadletter.Codes(r) {
			words = append(words, "`"+string(c)+"`")
		}
		if row := "\n| `" + string(r) + "` | " + strings.Join(words, ", ") + " |"; !strings.Contains(page, row) {
			t.Errorf("docs/dead-letters.md lacks %s", row)
		}
	}
}

// The snippets of the page on state are the files of one package, whose test passes.
func TestStatePageSnippets(t *testing.T) {
	testSnippets(t, "docs/state.md", "desk.go", "versions.go", "desk_test.go")
}

// testSnippets runs the test of the package whose files the snippets of a page are. Each
// begins with the name of its file.
func testSnippets(t *testing.T, page string, names ...string) {
	t.Helper()
	files := map[string]string{}
	for _, snippet := range goSnippets(t, page) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(snippet, "// "), "\n")
		if !strings.HasSuffix(name, ".go") || files[name] != "" {
			t.Fatalf("a snippet begins with %q, not with the name of its file", name)
		}
		files[name] = rest
	}
	for _, name := range names {
		if files[name] == "" {
			t.Fatalf("%s has no %s", page, name)
		}
	}
	run := readerModule(t, files)
	run("vet", "-mod=readonly", ".")
	run("test", "-mod=readonly", ".")
}

// priceFn has a cell of each kind that the page prices.
type priceFn struct {
	Memory   state.Memory
	Deferred state.Deferred
	TTL      state.TTL
}

func (*priceFn) ProcessElement(beamstate.Provider, timers.Provider, []byte, *pb.AgentEnvelope) {}

func (*priceFn) OnTimer(beamstate.Provider, timers.Provider, []byte, timers.Context) {}

// The costs on the page are the costs of the calls, and no row is missing.
func TestStatePageCosts(t *testing.T) {
	fn := new(priceFn)
	kit, err := beamtest.New(fn)
	if err != nil {
		t.Fatal(err)
	}
	open := func(sp beamstate.Provider) *state.MemoryHandle {
		mem, err := fn.Memory.Open(sp, 0)
		if err != nil {
			t.Fatal(err)
		}
		return mem
	}
	fill := func(sp beamstate.Provider) error {
		return errors.Join(open(sp).Put("key", []byte("value")), open(sp).Commit())
	}
	touch := func(ms int64) beamtest.Call {
		return func(sp beamstate.Provider, tp timers.Provider) error {
			return fn.TTL.Touch(sp, tp, window.GlobalWindow{}, ms, time.Hour)
		}
	}
	// What a call costs after another call of the same element.
	after := func(first, then func(sp beamstate.Provider) error) int {
		var costs [2]int
		for i := range costs {
			if err := kit.Run("k", func(sp beamstate.Provider, _ timers.Provider) error {
				err := first(sp)
				if i == 1 {
					err = errors.Join(err, then(sp))
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
			costs[i] = kit.RPCs().Total()
			kit.SetBytes("k", "memory", nil)
		}
		return costs[1] - costs[0]
	}
	run := func(call beamtest.Call) int {
		if err := kit.Run("k", call); err != nil {
			t.Fatal(err)
		}
		return kit.RPCs().Total()
	}
	just := func(sp beamstate.Provider) error { open(sp); return nil }
	nothing := func(beamstate.Provider) error { return nil }
	commit := func(sp beamstate.Provider) error { return open(sp).Commit() }
	put := func(sp beamstate.Provider) error { return open(sp).Put("key", []byte("value")) }
	empty := func(sp beamstate.Provider) error { err := fill(sp); open(sp).Clear(); return err }
	rows := map[string]int{
		"a cell that is not opened":                        after(nothing, nothing),
		"Open, the first in a call":                        after(nothing, just),
		"Open again":                                       after(just, just),
		"Commit of a message that was changed or migrated": after(put, commit),
		"Commit, nothing changed":                          after(just, commit),
		"Commit of an emptied cell":                        after(empty, commit),
		"Touch, and the mark moves":                        run(touch(7)),
		"Touch, and it does not":                           run(touch(7)),
	}
	run(func(sp beamstate.Provider, _ timers.Provider) error { return fill(sp) })
	if err := kit.Fire(7+time.Hour.Milliseconds(), func(timer beamtest.Timer, sp beamstate.Provider, tp timers.Provider) error {
		_, _, err := fn.TTL.Fired(timer.EventTime, sp, tp, timer.Context(), &fn.Memory)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	rows["Fired, with a full Memory"] = kit.RPCs().Total()
	rows["Add of a deferred event, at Commit"] = run(func(sp beamstate.Provider, _ timers.Provider) error {
		h := fn.Deferred.Open(sp)
		return errors.Join(h.Add(&runtimepb.DeferredEvent{Envelope: &pb.AgentEnvelope{}}), h.Commit())
	})

	_, table, _ := strings.Cut(readText(t, "docs/state.md"), "| call | RPCs |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table + "\n") {
		cells := strings.Split(row, "|")
		cost, ok := rows[strings.TrimSpace(cells[1])]
		if !ok || strings.TrimSpace(cells[2]) != strconv.Itoa(cost) {
			t.Errorf("%s: measured %d (%v)", strings.TrimSpace(row), cost, ok)
		}
		delete(rows, strings.TrimSpace(cells[1]))
	}
	if len(rows) > 0 {
		t.Errorf("docs/state.md does not price %v", rows)
	}
}
