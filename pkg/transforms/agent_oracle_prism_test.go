package transforms

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/internal/racedetector"
	"github.com/beamagents/beamagents-go/pkg/activation"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function2x0(parseTimed)
	register.Function3x2(recordOutput)
	register.Function2x2(recordIntent)
	register.Function2x2(recordTrace)
	register.Function2x2(recordSnapshot)
	register.Function2x2(recordError)
	register.Function2x1(recordText)
	register.DoFn4x1[[]byte, func(**pb.AgentEnvelope) bool, func(*string) bool, func(string), error](new(explainFn))
	register.Emitter2[beam.EventTime, *pb.AgentEnvelope]()
	register.Emitter1[string]()
	register.Iter1[*pb.AgentEnvelope]()
	register.Iter1[string]()
}

func parseTimed(raw []byte, emit func(beam.EventTime, *pb.AgentEnvelope)) {
	env := new(pb.AgentEnvelope)
	if err := proto.Unmarshal(raw, env); err != nil {
		panic(err)
	}
	emit(mtime.FromMilliseconds(env.GetEventTimeMs()), env)
}

// recordOf is a record as a short text.
func recordOf(kind string, at int64, content []byte) string {
	return fmt.Sprintf("%s@%d %x", kind, at, sha256.Sum256(content))
}

func recordOutput(at beam.EventTime, key, value []byte) ([]byte, string) {
	return key, recordOf("output", at.Milliseconds(), value)
}

func recordIntent(at beam.EventTime, m *pb.ToolIntent) ([]byte, string) {
	return m.GetEntityKey(), recordOf("intent", at.Milliseconds(), marshaled(m))
}

func recordTrace(at beam.EventTime, m *pb.TraceEvent) ([]byte, string) {
	return m.GetEntityKey(), recordOf("trace", at.Milliseconds(), marshaled(m))
}

func recordSnapshot(at beam.EventTime, m *pb.StateSnapshot) ([]byte, string) {
	return m.GetEntityKey(), recordOf("snapshot", at.Milliseconds(), marshaled(m))
}

func recordError(at beam.EventTime, m *pb.ActivationErrorRecord) ([]byte, string) {
	return m.GetEntityKey(), recordOf("error", at.Milliseconds(), marshaled(m))
}

func recordText(key []byte, record string) string { return fmt.Sprintf("%s %s", key, record) }

func recordOfEffect(e activation.Effect) string {
	switch {
	case e.Intent != nil:
		return recordOf("intent", e.AtMS, marshaled(e.Intent))
	case e.Trace != nil:
		return recordOf("trace", e.AtMS, marshaled(e.Trace))
	case e.Snapshot != nil:
		return recordOf("snapshot", e.AtMS, marshaled(e.Snapshot))
	case e.Error != nil:
		return recordOf("error", e.AtMS, marshaled(e.Error))
	}
	return recordOf("output", e.AtMS, e.Output)
}

// schedules runs bounded scripts of many keys through RunAgent. It returns the records of each key
// as texts, and the records that the oracle cannot explain. Any runner can run it.
func schedules(s beam.Scope, params AgentParams, scripts []*pb.AgentEnvelope) (left, unexplained beam.PCollection) {
	raw := make([][]byte, len(scripts))
	for i, env := range scripts {
		raw[i] = marshaled(env)
	}
	keyed := KeyByEntity(s, beam.ParDo(s, parseTimed, beam.CreateList(s, raw)))
	agents := RunAgent(s, params, keyed)
	all := beam.Flatten(s,
		beam.ParDo(s, recordOutput, agents.Outputs), beam.ParDo(s, recordIntent, agents.Intents), beam.ParDo(s, recordTrace, agents.Traces),
		beam.ParDo(s, recordSnapshot, agents.Snapshots), beam.ParDo(s, recordError, agents.Errors))
	a := params.Agent.(*scriptedAgent)
	explain := &explainFn{Route: a.Route, MaxDeferred: params.MaxDeferred, TTLMS: params.TTL.Milliseconds()}
	return beam.ParDo(s, recordText, all), beam.ParDo(s, explain, beam.CoGroupByKey(s, keyed, all))
}

// explainFn looks for an order of the inputs of a key in which the oracle has the same records as
// the key.
type explainFn struct {
	Route       string
	MaxDeferred int
	TTLMS       int64
}

func (f *explainFn) params() AgentParams {
	return AgentParams{
		Name: "test", Agent: &scriptedAgent{Route: f.Route}, MaxDeferred: f.MaxDeferred, TTL: time.Duration(f.TTLMS) * time.Millisecond,
	}
}

func (f *explainFn) ProcessElement(key []byte, envelopes func(**pb.AgentEnvelope) bool, left func(*string) bool, emit func(string)) error {
	o, err := newOracle(f.params())
	if err != nil {
		return err
	}
	var inputs []*pb.AgentEnvelope
	for env := (*pb.AgentEnvelope)(nil); envelopes(&env); {
		inputs = append(inputs, env)
	}
	slices.SortStableFunc(inputs, func(a, b *pb.AgentEnvelope) int { return int(a.GetEventTimeMs() - b.GetEventTimeMs()) })
	records := map[string]int{}
	for r := ""; left(&r); {
		records[r]++
	}
	if err := o.key(string(key)).explain(inputs, records); err != nil {
		emit(fmt.Sprintf("%s: %v", key, err))
	}
	return nil
}

// explain takes the elements in their order, and after all of them what is due at the end. Deferred
// events that can run may do so before the next element, or with it.
func (k *oracleKey) explain(inputs []*pb.AgentEnvelope, left map[string]int) error {
	for i, env := range inputs {
		if activation.Rest(k.Control) {
			c, l := k.copied(), maps.Clone(left)
			if c.take(l, func() error { return c.step(c.rules.Drain(&c.Key)) }) == nil && c.explain(inputs[i:], l) == nil {
				return nil
			}
		}
		if err := k.take(left, func() error { return k.element(env) }); err != nil {
			return fmt.Errorf("element %d of %d: %w", i, len(inputs), err)
		}
	}
	if err := k.take(left, func() error { return k.advance(math.MaxInt64) }); err != nil {
		return fmt.Errorf("the end: %w", err)
	}
	var problems []error
	for r, n := range left {
		if n > 0 {
			problems = append(problems, fmt.Errorf("%d of %s have no reason", n, r))
		}
	}
	return errors.Join(problems...)
}

// take removes the records of a step from the records that are not explained yet.
func (k *oracleKey) take(left map[string]int, step func() error) error {
	before := len(k.effects)
	if err := step(); err != nil {
		return err
	}
	for _, e := range k.effects[before:] {
		r := recordOfEffect(e)
		if left[r]--; left[r] < 0 {
			return fmt.Errorf("%s is missing", r)
		}
	}
	return nil
}

// boundedScripts are scripts whose times grow for each key, with answers to their intents.
func boundedScripts(params AgentParams, seeds []uint64) (all []*pb.AgentEnvelope, err error) {
	for _, seed := range seeds {
		o, err := newOracle(params)
		if err != nil {
			return nil, err
		}
		r := rand.New(rand.NewPCG(seed, 3))
		keys := 1 + r.IntN(3)
		for i := range 40 {
			k := o.key(fmt.Sprintf("s%d-k%d", seed, r.IntN(keys)))
			env := randomEnvelope(r, k, int64(1000+i*1000+r.IntN(900)))
			if err := k.element(env); err != nil {
				return nil, err
			}
			all = append(all, env)
		}
	}
	return all, nil
}

// On the embedded runner the result is that of the oracle, for every Concurrency, with little
// memory and with delays. It is also the same from run to run, unless more events are deferred than
// run in one step: then an answer or an export may come before or after the rest of them.
func TestPrismSameForEverySchedule(t *testing.T) {
	withMaxHeld(t, 64<<10)
	keys := 12
	if racedetector.Enabled {
		keys = 4
	}
	for i, params := range []AgentParams{
		{Agent: &scriptedAgent{Jitter: 200}, MaxDeferred: 8, TTL: 10 * time.Second},
		{Agent: &scriptedAgent{Jitter: 200, Route: "escalate"}, MaxDeferred: 5, HoldWatermark: true},
		{Agent: &scriptedAgent{Jitter: 200, Route: "resume"}, MaxDeferred: 30, TTL: 5 * time.Second},
	} {
		params.Name = "test"
		var seeds []uint64
		for n := range keys {
			seeds = append(seeds, uint64(100*i+n))
		}
		scripts, err := boundedScripts(params, seeds)
		if err != nil {
			t.Fatal(err)
		}
		p, s := beam.NewPipelineWithRoot()
		var first beam.PCollection
		for n, concurrency := range []int{1, 2, 16, 64} {
			params.Concurrency = concurrency
			left, unexplained := schedules(s, params, scripts)
			passert.Empty(s, unexplained)
			switch {
			case n == 0:
				first = left
			case params.MaxDeferred <= 8:
				passert.Equals(s, left, first)
			}
		}
		prismtest.Run(t, p)
	}
}

// The oracle finds a fault in the records of a key.
func TestOracleExplains(t *testing.T) {
	params := AgentParams{Name: "test", Agent: new(scriptedAgent), TTL: 10 * time.Second}
	scripts, err := boundedScripts(params, []uint64{7})
	if err != nil {
		t.Fatal(err)
	}
	name := string(scripts[0].GetEntityKey())
	inputs := slices.DeleteFunc(scripts, func(env *pb.AgentEnvelope) bool { return string(env.GetEntityKey()) != name })
	fresh := func() *oracleKey {
		o, err := newOracle(params)
		if err != nil {
			t.Fatal(err)
		}
		return o.key(name)
	}
	run := func(inputs []*pb.AgentEnvelope, early bool) (left map[string]int) {
		k := fresh()
		for _, env := range inputs {
			if err := k.element(env); err != nil {
				t.Fatal(err)
			}
			if early {
				if err := k.advance(env.GetEventTimeMs() + 100_000); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := k.advance(math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		left = map[string]int{}
		for _, e := range k.effects {
			left[recordOfEffect(e)]++
		}
		return left
	}
	swapped := slices.Clone(inputs)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	lost, twice := run(inputs, false), run(inputs, false)
	for _, r := range slices.Sorted(maps.Keys(lost))[:1] {
		lost[r]--
		twice[r]++
	}
	for name, test := range map[string]struct {
		left map[string]int
		want string
	}{
		"right":                  {run(inputs, false), ""},
		"a record is lost":       {lost, "is missing"},
		"a record twice":         {twice, "have no reason"},
		"an element is lost":     {run(inputs[1:], false), "is missing"},
		"elements out of order":  {run(swapped, false), "is missing"},
		"timers before elements": {run(inputs, true), "is missing"},
		"nothing":                {map[string]int{}, "is missing"},
	} {
		err := fresh().explain(inputs, test.left)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}
