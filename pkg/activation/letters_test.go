package activation_test

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// letterCase makes one dead letter, of an envelope at 2000 or of a timer that is due at 2000.
type letterCase struct {
	rules func(*activation.Rules)
	agent agent.Agent // scripted if nil
	run   func(w *world)
}

func none(*activation.Rules) {}

func onEvent(script string) letterCase {
	return letterCase{none, nil, func(w *world) { w.event(2000, script) }}
}

// onAnswer answers the first intent of a script at 2000.
func onAnswer(script string) letterCase {
	return letterCase{none, nil, func(w *world) {
		w.event(1000, script)
		w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
	}}
}

// onTimer runs a script at 1000, and then its timer.
func onTimer(script string) letterCase {
	return letterCase{none, nil, func(w *world) {
		w.event(1000, script)
		w.timeout()
	}}
}

// All pairs of reason and code that RunAgent writes, each with its input. The text after a colon
// tells the cases of one pair apart.
func letterCases() map[string]letterCase {
	big := strings.Repeat("x", 3000)
	small := func(r *activation.Rules) {
		r.MaxOutputBytes, r.MaxSnapshotBytes, r.MaxIntents = 2000, 100, 2
	}
	with := func(c letterCase, rules func(*activation.Rules)) letterCase { c.rules = rules; return c }
	future := &pb.AgentEnvelope{EventTimeMs: 2000}
	future.ProtoReflect().SetUnknown([]byte{0xa2, 0x06, 0x01, 0x61})
	return map[string]letterCase{
		"malformed_envelope/empty_payload": {none, nil, func(w *world) { w.envelope(&pb.AgentEnvelope{EventTimeMs: 2000}) }},
		"unknown_payload/newer_variant":    {none, nil, func(w *world) { w.envelope(future) }},

		"activation_error/error":              onEvent("fail boom"),
		"activation_error/error:answer":       onAnswer("act t {}; suspend 5000 | fail boom"),
		"activation_error/error:expiry":       onTimer("expire 1000; act t {}; suspend 5000 | fail boom"),
		"activation_error/error:deadline":     onTimer("suspend 1000 | @resume; fail boom"),
		"activation_error/panic":              onEvent("panic boom"),
		"activation_error/panic:deadline":     onTimer("suspend 1000 | @resume; panic boom"),
		"activation_error/exit":               onEvent("exit"),
		"activation_error/exit:deadline":      onTimer("suspend 1000 | @resume; exit"),
		"activation_error/rejected":           onEvent("reject boom"),
		"activation_error/rejected:answer":    onAnswer("act t {}; suspend 5000 | reject boom"),
		"activation_error/rejected:expiry":    onTimer("expire 1000; act t {}; suspend 5000 | reject boom"),
		"activation_error/memory_overflow":    onEvent("put a " + strings.Repeat("x", 1<<20+1)),
		"activation_error/too_many_intents":   with(onEvent("act t {}; act t {}; act t {}"), small),
		"activation_error/invalid_text":       onEvent("act t []"),
		"activation_error/output_too_large":   with(onEvent("emit "+big), small),
		"activation_error/snapshot_too_large": with(onEvent("suspend 1 | "+big), small),
		"activation_error/snapshot_version": {none, &versioned{version: 7}, func(w *world) {
			w.event(1000, "")
			w.rules.Agent = &versioned{version: 6}
			w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		}},
		"activation_timeout/limit": {none, nil, func(w *world) {
			w.limit = time.Millisecond
			w.event(2000, "hang")
		}},
		"activation_timeout/limit:answer": {none, nil, func(w *world) {
			w.event(1000, "act t {}; suspend 5000 | hang")
			w.limit = time.Millisecond
			w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		}},
		"activation_timeout/limit:deadline": {none, nil, func(w *world) {
			w.event(1000, "suspend 1000 | @resume; hang")
			w.limit = time.Second // of the policy, too
			w.timeout()
		}},
		"activation_timeout/limit:expiry": {none, nil, func(w *world) {
			w.event(1000, "expire 1000; act t {}; suspend 5000 | hang")
			w.limit = time.Millisecond
			w.timeout()
		}},

		"orphaned_result/no_continuation": {none, nil, func(w *world) { w.result(2000, new(pb.ToolIntent), pb.ToolResult_OK, "") }},
		"orphaned_result/unknown_intent": {none, nil, func(w *world) {
			w.event(1000, "suspend 5000 | done")
			w.approve(2000, 0, "other", true)
		}},
		"orphaned_result/approval_too_late": {none, nil, func(w *world) {
			w.event(1000, "ask t {}; suspend 1000 | done")
			w.approve(2000, 0, w.intents()[0].GetIntentId(), true)
		}},
		"orphaned_result/intent_expired": {none, nil, func(w *world) {
			w.event(1000, "expire 1; act t {}; suspend 5000 | again 5000")
			w.timeout()
			w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		}},
		"orphaned_result/kind_mismatch": onAnswer("ask t {}; suspend 5000 | done"),
		"orphaned_result/identity_mismatch": {none, nil, func(w *world) {
			w.event(1000, "act t {}; suspend 5000 | done")
			w.result(2000, &pb.ToolIntent{IntentId: w.intents()[0].GetIntentId(), EntityKey: []byte("x")}, pb.ToolResult_OK, "")
		}},

		"adapter_mismatch/adapter_mismatch": {none, nil, func(w *world) {
			w.event(1000, "act t {}; suspend 5000 | done")
			w.rules.Name = "other"
			w.result(2000, w.intents()[0], pb.ToolResult_OK, "")
		}},
		"suspended/rejected": {func(r *activation.Rules) { r.WhileSuspended = activation.Reject }, nil, func(w *world) {
			w.event(1000, "suspend 5000 | done")
			w.event(2000, "emit x")
		}},
		"deferred_overflow/count": {func(r *activation.Rules) { r.MaxDeferred = 0 }, nil, func(w *world) {
			w.event(1000, "suspend 5000 | done")
			w.event(2000, "emit x")
		}},
		"deferred_overflow/bytes": {func(r *activation.Rules) { r.MaxDeferredBytes = 1 }, nil, func(w *world) {
			w.event(1000, "suspend 5000 | done")
			w.event(2000, "emit x")
		}},
		"budget_exceeded/activations": {func(r *activation.Rules) { r.MaxActivationsPerHour = 1 }, nil, func(w *world) {
			w.event(1000, "emit x")
			w.event(2000, "emit x")
		}},
		"budget_exceeded/activations:expiry": with(onTimer("expire 1000; act t {}; suspend 5000 | done"),
			func(r *activation.Rules) { r.MaxActivationsPerHour = 1 }),
		"budget_exceeded/activations:deadline": with(onTimer("suspend 1000 | @resume; done"),
			func(r *activation.Rules) { r.MaxActivationsPerHour = 1 }),

		"hitl_timeout/dropped":             onTimer("suspend 1000 | @drop no one came"),
		"hitl_timeout/policy_error":        onTimer("suspend 1000 | @panic"),
		"hitl_timeout/policy_error:route":  onTimer("suspend 1000 | @none"),
		"hitl_timeout/policy_error:nobody": onTimer("suspend 1000 | @escalate boss 1000 1"),
		"hitl_timeout/endless": {none, nil, func(w *world) {
			w.event(1990, "suspend 1 | @resume; suspend 1 | @resume; again 1")
			for w.now().GetTimeoutsInRow() < 100 {
				w.timeout()
			}
			w.timeout()
		}},
		"hitl_timeout/endless:expiry": {none, nil, func(w *world) {
			w.event(1900, "expire 1; act t {}; suspend 10 | expire 1; act t {}; again 10")
			for w.now().GetTimeoutsInRow() < 100 {
				w.timeout()
			}
			w.timeout()
		}},
	}
}

func TestLettersOfTheClosedList(t *testing.T) {
	cases := letterCases()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a := c.agent
			if a == nil {
				a = &scripted{}
			}
			w := newWorld(t, a, c.rules)
			w.key = "key" // of the element; the envelope's is k
			c.run(w)
			pair, _, timer := strings.Cut(name, ":")
			l := w.letter()
			if got := string(l.Reason) + "/" + string(l.Code); got != pair {
				t.Errorf("it is %s: %q", got, l.Error)
			}
			if string(l.EntityKey) != "key" {
				t.Errorf("the entity key is %q", l.EntityKey)
			}
			var at int64
			for _, e := range w.last.Effects {
				if e.Error != nil {
					at = e.AtMS
				}
			}
			switch {
			case strings.HasPrefix(pair, "hitl_timeout"):
				// The deadline, which is later than an expiry.
				if l.InputKind != deadletter.NoInput || l.Position.DeadlineMS == nil || l.EventTimeMS != *l.Position.DeadlineMS || at > l.EventTimeMS {
					t.Errorf("kind %s, event_time_ms %d, deadline %v, at %d", l.InputKind, l.EventTimeMS, *l.Position.DeadlineMS, at)
				}
			case timer && !strings.HasSuffix(name, ":answer"):
				if l.InputKind != deadletter.NoInput || l.Input != nil || l.EventTimeMS != 2000 || at != 2000 {
					t.Errorf("kind %s, event_time_ms %d, at %d; want none, 2000", l.InputKind, l.EventTimeMS, at)
				}
			default:
				if l.InputKind != deadletter.EnvelopeInput || !bytes.Equal(l.Input, w.encode(w.sent)) || l.EventTimeMS != 2000 || at != 2000 {
					t.Errorf("kind %s, input %x, event_time_ms %d, at %d", l.InputKind, l.Input, l.EventTimeMS, at)
				}
			}
			for _, c := range []byte(l.Error) {
				if c < ' ' {
					t.Errorf("the text is %q", l.Error)
				}
			}
		})
	}

	// The list is complete.
	var want []string
	for _, reason := range []deadletter.Reason{
		deadletter.ActivationError, deadletter.ActivationTimeout, deadletter.OrphanedResult, deadletter.AdapterMismatch,
		deadletter.Suspended, deadletter.DeferredOverflow, deadletter.HITLTimeout, deadletter.UnknownPayload,
	} {
		for _, code := range deadletter.Codes(reason) {
			want = append(want, string(reason)+"/"+string(code))
		}
	}
	want = append(want, "malformed_envelope/empty_payload", "budget_exceeded/activations")
	for _, pair := range want {
		if _, ok := cases[pair]; !ok {
			t.Errorf("%s has no case", pair)
		}
	}
	for name := range maps.Keys(cases) {
		if pair, _, _ := strings.Cut(name, ":"); !slices.Contains(want, pair) {
			t.Errorf("%s is not in the list", pair)
		}
	}
}

// The position says where it failed.
func TestLettersTellThePosition(t *testing.T) {
	w := newScripted(t)
	w.event(1000, "act a {}; act b {}; suspend 5000 | act c {}; act d {}; fail boom")
	w.result(2000, w.intents()[1], pb.ToolResult_OK, "")
	p := w.letter().Position
	if *p.Seq != 0 || *p.Step != 4 || *p.Intents != 2 || p.LastEvent != "INTENT_EMITTED" || p.IntentID != w.intents()[1].GetIntentId() || *p.DeadlineMS != 6000 {
		t.Errorf("%+v", p)
	}
	w.event(1000, "fail")
	w.timeout()
	if p := w.letter().Position; *p.Seq != 1 || *p.Step != 0 || p.Intents != nil || *p.Arrival != 0 || p.DeadlineMS != nil || p.IntentID != "" {
		t.Errorf("%+v", p)
	}
	w.approve(9, 9, "no", true)
	if p := w.letter().Position; *p.Seq != 1 || p.IntentID != "no" {
		t.Errorf("%+v", p)
	}
}

// The text that an agent gives for a failure must not differ from run to run.
func TestLettersAreStable(t *testing.T) {
	w := newWorld(t, run(func(context.Context, *agent.Activation) (agent.Outcome, error) {
		panic(&struct{ n int }{1})
	}))
	w.repeat = true
	w.event(1, "e")
	w.expect("error@1 activation_error/panic envelope")
	w = newWorld(t, run(func(context.Context, *agent.Activation) (agent.Outcome, error) { panic(new(int)) }))
	w.repeat = true
	w.event(1, "e")
}
