package transforms

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/teststream"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function3x1(sayOutput)
	register.Function2x1(sayIntent)
	register.Function2x1(sayLetter)
	register.Function2x0(parseRaw)
	register.Function2x0(parseText)
	register.Emitter1[*pb.AgentEnvelope]()
}

func sayOutput(at beam.EventTime, key, value []byte) string {
	return fmt.Sprintf("%s output@%d %s", key, at.Milliseconds(), value)
}

func sayIntent(at beam.EventTime, in *pb.ToolIntent) string {
	return fmt.Sprintf("%s intent@%d %v %s", in.GetEntityKey(), at.Milliseconds(), in.GetKind(), in.GetToolName())
}

func sayLetter(at beam.EventTime, rec *pb.ActivationErrorRecord) string {
	l, err := deadletter.Read(rec)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s error@%d %s/%s", l.EntityKey, at.Milliseconds(), l.Reason, l.Code)
}

func parseRaw(raw []byte, emit func(*pb.AgentEnvelope)) {
	env := new(pb.AgentEnvelope)
	if err := proto.Unmarshal(raw, env); err != nil {
		panic(err)
	}
	emit(env)
}

// spoken are outputs, intents, snapshots and dead letters of a pipeline, as texts.
func spoken(s beam.Scope, agents Agents) beam.PCollection {
	return beam.Flatten(s, beam.ParDo(s, sayOutput, agents.Outputs), beam.ParDo(s, sayIntent, agents.Intents),
		beam.ParDo(s, saySnapshot, agents.Snapshots), beam.ParDo(s, sayLetter, agents.Errors))
}

func encoded(t *testing.T, env *pb.AgentEnvelope) []byte {
	t.Helper()
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// stream runs what a TestStream delivers through RunAgent.
func stream(t *testing.T, params AgentParams, deliver func(ts *teststream.Config, add func(env *pb.AgentEnvelope)), want ...string) {
	t.Helper()
	ts := teststream.NewConfig()
	deliver(&ts, func(env *pb.AgentEnvelope) {
		if err := ts.AddElements(env.GetEventTimeMs(), encoded(t, env)); err != nil {
			t.Fatal(err)
		}
	})
	ts.AdvanceWatermarkToInfinity()
	p, s := beam.NewPipelineWithRoot()
	if params.Name == "" {
		params.Name = "test"
	}
	if params.Agent == nil {
		params.Agent = new(scriptedAgent)
	}
	envelopes := beam.ParDo(s, parseRaw, teststream.Create(s, ts))
	agents := RunAgent(s, params, KeyByEntity(s, envelopes))
	passert.EqualsList(s, spoken(s, agents), want)
	prismtest.Run(t, p)
}

// firstIntent is the first intent of a key's first activation.
func firstIntent(key string) *pb.ToolIntent {
	return &pb.ToolIntent{IntentId: intent.ID([]byte(key), 0, 0), EntityKey: []byte(key)}
}

func TestPrismApprovals(t *testing.T) {
	ask := eventFor("a", 1000, script{Ask: []string{"refund"}, Then: "suspend", Timeout: 5000, Next: &script{Use: true}})
	deny := script{Ask: []string{"refund"}, Then: "suspend", Timeout: 5000, Next: &script{Emit: []string{"no"}}}
	late := approvalFor(firstIntent("a"), 6000, true)
	early := proto.CloneOf(late)
	early.GetApproval().DecidedAtMs = 5999
	undated := proto.CloneOf(late)
	undated.GetApproval().DecidedAtMs = 0
	undated.EventTimeMs = 5000
	for _, concurrency := range []int{1, 4} {
		for name, test := range map[string]struct {
			deliver func(ts *teststream.Config, add func(*pb.AgentEnvelope))
			want    []string
		}{
			"in time": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					add(approvalFor(firstIntent("a"), 3000, true))
					ts.AdvanceWatermark(4000)
				},
				[]string{"a intent@1000 APPROVAL refund", "a output@3000 approval approved=true expired=0 payload=", "a intent@3000 TOOL refund"},
			},
			"denied": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(eventFor("a", 1000, deny))
					ts.AdvanceWatermark(2000)
					add(approvalFor(firstIntent("a"), 3000, false))
				},
				[]string{"a intent@1000 APPROVAL refund", "a output@3000 approval approved=false expired=0 payload=", "a output@3000 no"},
			},
			"decided in time and delivered late": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					add(early) // its time is that of the deadline, its decision before it
					ts.AdvanceWatermark(5000)
				},
				[]string{"a intent@1000 APPROVAL refund", "a output@6000 approval approved=true expired=0 payload=", "a intent@6000 TOOL refund"},
			},
			"at the deadline": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					add(late)
					ts.AdvanceWatermark(5000)
				},
				[]string{"a intent@1000 APPROVAL refund", "a error@6000 orphaned_result/approval_too_late", "a output@6000 denied"},
			},
			"after the deadline": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					ts.AdvanceWatermark(7000)
					add(early)
					ts.AdvanceWatermark(8000)
				},
				[]string{"a intent@1000 APPROVAL refund", "a output@6000 denied", "a error@6000 orphaned_result/no_continuation"},
			},
			"without a date": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					add(undated)
					ts.AdvanceWatermark(5500)
				},
				[]string{"a intent@1000 APPROVAL refund", "a output@5000 approval approved=true expired=0 payload=", "a intent@5000 TOOL refund"},
			},
			"twice": {
				func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
					add(ask)
					ts.AdvanceWatermark(2000)
					add(approvalFor(firstIntent("a"), 3000, true))
					ts.AdvanceWatermark(3000)
					add(approvalFor(firstIntent("a"), 3500, true))
					ts.AdvanceWatermark(4000)
				},
				[]string{
					"a intent@1000 APPROVAL refund", "a output@3000 approval approved=true expired=0 payload=", "a intent@3000 TOOL refund",
					"a error@3500 orphaned_result/no_continuation",
				},
			},
		} {
			t.Run(fmt.Sprintf("%s/%d", name, concurrency), func(t *testing.T) {
				stream(t, AgentParams{Concurrency: concurrency}, test.deliver, test.want...)
			})
		}
	}
}

// Prism delivers the elements and timers of a key in the order of their times. So an answer whose
// time is after the deadline waits for the timer, while the watermark is before both. The kit tests
// the order that other runners may choose.
func TestPrismAnswerAheadOfTheDeadline(t *testing.T) {
	first := script{Act: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Act: []string{"u"}, Then: "suspend", Timeout: 60_000}}
	for _, concurrency := range []int{1, 4} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			stream(t, AgentParams{Concurrency: concurrency}, func(ts *teststream.Config, add func(*pb.AgentEnvelope)) {
				add(eventFor("a", 1000, first))
				ts.AdvanceWatermark(2000)
				add(resultFor(firstIntent("a"), 20_000, "ahead"))
				ts.AdvanceWatermark(3000)
				ts.AdvanceWatermark(30_000)
			}, "a intent@1000 TOOL t", "a output@6000 denied", "a error@20000 orphaned_result/no_continuation")
		})
	}
}

// At the end of a bounded input, fifty deadlines fire at the same time, the deferred events run, and
// no suspension is left.
func TestPrismBoundedInputEndsAllSuspensions(t *testing.T) {
	for _, concurrency := range []int{1, 16} {
		t.Run(fmt.Sprint(concurrency), func(t *testing.T) {
			var envelopes, want []string
			for i := range 50 {
				key := fmt.Sprintf("k%02d", i)
				envelopes = append(envelopes, string(encoded(t, eventFor(key, 1000, script{Ask: []string{"t"}, Then: "suspend", Timeout: 5000}))))
				want = append(want, key+" intent@1000 APPROVAL t", key+" output@6000 denied")
				for n := range 20 { // more than run in one step
					envelopes = append(envelopes, string(encoded(t, eventFor(key, 1001+int64(n), script{Count: "n"}))))
					want = append(want, fmt.Sprintf("%s output@6000 n %d at 6000", key, n+1))
				}
			}
			p, s := beam.NewPipelineWithRoot()
			raw := beam.CreateList(s, envelopes)
			agents := RunAgent(s, AgentParams{Name: "test", Agent: new(scriptedAgent), Concurrency: concurrency},
				KeyByEntity(s, beam.ParDo(s, parseText, raw)))
			passert.EqualsList(s, spoken(s, agents), want)
			prismtest.Run(t, p)
		})
	}
}

// Each poison is the first, the middle and the last input of its key, and some are first and last
// in the bundle. "bad text" is missing, because the coder before RunAgent refuses it.
func TestPrismPoison(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		var envelopes, want []string
		all := poison()
		delete(all, "bad text")
		for at := range 3 {
			for i, name := range slices.Sorted(maps.Keys(all)) {
				key := fmt.Sprintf("k%d-%d", i, at)
				bad := proto.CloneOf(all[name].env)
				bad.EntityKey = []byte(key)
				for _, env := range slices.Insert([]*pb.AgentEnvelope{
					eventFor(key, 900, script{Count: "n"}), eventFor(key, 1100, script{Count: "n"}),
				}, at, bad) {
					envelopes = append(envelopes, string(encoded(t, env)))
				}
				want = append(want, key+" output@900 n 1 at 900", key+" output@1100 n 2 at 1100",
					fmt.Sprintf("%s error@%d %s", key, max(bad.GetEventTimeMs(), 0), all[name].want))
			}
		}
		params := poisonParams(concurrency)
		params.ActivationTimeout = time.Second
		p, s := beam.NewPipelineWithRoot()
		agents := RunAgent(s, params, KeyByEntity(s, beam.ParDo(s, parseText, beam.CreateList(s, envelopes))))
		passert.EqualsList(s, spoken(s, agents), want)
		prismtest.Run(t, p)
	})
}

func parseText(raw string, emit func(*pb.AgentEnvelope)) { parseRaw([]byte(raw), emit) }
