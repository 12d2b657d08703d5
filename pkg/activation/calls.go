package activation

import (
	"errors"
	"strconv"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
	"github.com/beamagents/beamagents-go/pkg/replay"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// calls sets up the model calls of an attempt. The returned function returns the replay cache of
// the key, or nil if the attempt has not opened it.
func (s *stepper) calls(a *attempt, start *agent.Start, measured func() int64) (cache func() *replay.Cache) {
	var opened *replay.Cache
	start.Calls = modelcall.Config{
		Attempt: uint32(s.resumes(a)),
		Scope:   s.k.Scope, Process: s.Process, Hooks: hooksOf(s.Agent), MaxTokens: s.MaxTokens, Elapsed: measured,
		Cache: func() (*replay.Cache, error) {
			c, err := s.k.Cache()
			if err != nil {
				return nil, err
			}
			c.SetNow(a.now)
			opened = c
			return c, nil
		},
		Try: func() []byte {
			if a.env == nil {
				return []byte(timerInput(a))
			}
			input, err := marshal(a.env)
			if err != nil {
				return nil // no attempt has such an envelope as input
			}
			return input
		},
	}
	return func() *replay.Cache { return opened }
}

func hooksOf(a agent.Agent) (hooks modelcall.Hooks) {
	if r, ok := a.(agent.ResponseRedactor); ok {
		hooks.Redact = r.RedactResponse
	}
	if r, ok := a.(agent.ResponseSealer); ok {
		hooks.Seal, hooks.Open = r.SealResponse, r.OpenResponse
	}
	return hooks
}

// countCalls counts the calls of an attempt, whether it succeeds or fails, because the provider
// bills both.
func (s *stepper) countCalls(left modelcall.Left, tookMS int64) {
	var spent int64
	for _, c := range left.Calls {
		spent += c.DurationMS
		if c.Hit {
			s.count(LLMCacheHits)
			continue
		}
		s.count(LLMCalls)
		s.sampleTokens(c.Usage)
	}
	for _, u := range left.Broken {
		s.sampleTokens(u)
	}
	if len(left.Calls) > 0 {
		s.sample(LLMMS, spent)
	}
	s.sample(OverheadMS, max(tookMS-spent, 0))
	for range left.NotStored {
		s.count(LLMNotStored)
	}
	for range left.Diverged {
		s.count(ReplayDivergences)
	}
}

// modelCalls returns how many calls a model has answered. Answers from an earlier try of the same
// attempt count, so that each try returns the same number.
func modelCalls(left modelcall.Left) (n int64) {
	for _, c := range left.Calls {
		if !c.Hit {
			n++
		}
	}
	return n
}

func (s *stepper) sampleTokens(u modelcall.Usage) {
	if u.Known {
		s.sample(Tokens, u.Input+u.Output)
		s.sample(PromptTokens, u.Input)
		s.sample(CompletionTokens, u.Output)
	}
}

func (s *stepper) sample(name string, value int64) {
	s.out.Samples = append(s.out.Samples, Sample{name, value})
}

// commitCalls stores the responses of an attempt that has succeeded. A failed attempt stores
// nothing.
func (s *stepper) commitCalls(left *modelcall.Left, cache func() *replay.Cache) error {
	if len(left.Calls) == 0 {
		return nil
	}
	c := cache()
	if c == nil {
		return errors.New("activation: model calls without a replay cache")
	}
	if err := left.Commit(c); err != nil {
		return err
	}
	for _, call := range left.Calls {
		if call.Differs {
			s.count(ReplayDifferences)
		}
	}
	for range left.Evicted {
		s.count(LLMCacheEvictions)
	}
	return nil
}

// calls emits the trace events of the model calls, in the order of their cache keys.
func (t tracer) calls(parent [8]byte, staged agent.Staged, entry uint32, resumes int64) {
	for _, c := range staged.Calls.Calls {
		attributes := c.Attributes()
		if t.s.MeasureDurations {
			attributes["beam_agents.duration_ms"] = strconv.FormatInt(c.DurationMS, 10)
			attributes["beam_agents.offset_ms"] = strconv.FormatInt(c.StartMS, 10)
		}
		role, step := intent.RoleOf(pb.TraceEvent_LLM_CALL), entry
		if number, ok := staged.CallSteps[c.Key]; ok {
			step = number
		}
		span := intent.SpanID(t.s.k.Entity, t.seq, role, step)
		if c.HTTP {
			// These calls have no step of their own. A resume may make the same request again.
			span = intent.SpanID(t.s.k.Entity, t.seq, role+"."+c.Key, uint32(resumes))
		}
		t.emit(&pb.TraceEvent{EventType: pb.TraceEvent_LLM_CALL, StepIndex: step, Attributes: attributes}, span, parent)
	}
}

// withoutSecrets removes the credentials of requests from the text of a failure. The errors of an
// HTTP client contain the URL.
func withoutSecrets(f *Failure, secrets []string) *Failure {
	if len(secrets) == 0 {
		return f
	}
	hidden := *f
	for _, secret := range secrets {
		hidden.Text = strings.ReplaceAll(hidden.Text, secret, "[hidden]")
	}
	return &hidden
}
