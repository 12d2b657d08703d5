package genkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"

	"github.com/beamagents/beamagents-go/pkg/adapter"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

// HTTPClient returns a client for the plugins of models. A request belongs to the activation of
// the [Generate] whose context it has. Its response is stored in the state of the key, and the
// same request is not sent again. A request with another context fails.
func HTTPClient() *http.Client { return adapter.HTTPClient() }

// Options are the options of [Generate].
type Options struct {
	// Timeout is the timeout of each suspension, as for agent.Suspend: at least 1 ms.
	Timeout time.Duration
	// Ask translates an interrupt that was not made by Act, ActApproved or RequestApproval into a
	// call. Without Ask such an interrupt is an error.
	Ask func(interrupt *ai.Part) (Call, error)
	// Resume returns the part that resolves such an interrupt: the Respond or the Restart of its
	// tool. Without Resume, the response of the tool is Answer.Text.
	Resume func(interrupt *ai.Part, a Answer) (*ai.Part, error)
}

// Result is the result of [Generate].
type Result struct {
	// Suspended reports that the generation waits. In that case, return the Outcome, which
	// suspends the activation.
	Suspended bool
	Outcome   agent.Outcome
	// Response is the response of the generation, if it does not wait.
	Response *ai.ModelResponse
}

// snapshot is the snapshot of a suspended activation.
type snapshot struct {
	Version  int               `json:"version"`
	Messages []*ai.Message     `json:"messages"` // the last message has the interrupts
	Waiting  adapter.Waiting   `json:"waiting"`  // with the refs of the tool calls as ids
	Answers  map[string]Answer `json:"answers,omitempty"`
}

// formVersion is the version of the snapshot's form.
const formVersion = 1

func (s *snapshot) bytes() ([]byte, error) {
	s.Version = formVersion
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("genkit: the snapshot cannot be encoded: %w", err)
	}
	return b, nil
}

func (s *snapshot) read(b []byte) error {
	if err := json.Unmarshal(b, s); err != nil {
		return fmt.Errorf("genkit: the snapshot cannot be read: %w", err)
	}
	switch {
	case s.Version != formVersion:
		return fmt.Errorf("genkit: the snapshot has form version %d, and this build reads %d", s.Version, formVersion)
	case len(s.Messages) == 0:
		return errors.New("genkit: the snapshot has no messages")
	}
	if s.Answers == nil {
		s.Answers = map[string]Answer{}
	}
	return nil
}

// Migrate rewrites the messages in a snapshot of [Generate]. Use it in MigrateSnapshot. The last
// message is the one of the model whose tools were interrupted.
func Migrate(from []byte, rewrite func([]*ai.Message) ([]*ai.Message, error)) ([]byte, error) {
	var s snapshot
	err := s.read(from)
	if err == nil {
		s.Messages, err = rewrite(s.Messages)
	}
	if err != nil {
		return nil, err
	}
	return s.bytes()
}

// Generate runs a generation for the trigger of an activation. For an event it starts with the
// messages. For any other trigger it ignores the messages and continues with those of the
// snapshot. If the trigger is a deadline or an expiry, every call is answered with the status
// EXPIRED. The options name the model and the tools. An error fails the activation.
func Generate(ctx context.Context, act *agent.Activation, g *genkit.Genkit, messages []*ai.Message, o Options, opts ...ai.GenerateOption) (Result, error) {
	var res Result
	if o.Timeout < time.Millisecond {
		return res, fmt.Errorf("genkit: Options.Timeout is %v; use at least 1ms", o.Timeout)
	}
	s := snapshot{Messages: messages, Answers: map[string]Answer{}}
	opts = append(slices.Clone(opts), ai.WithMiddleware(deterministic))
	if act.Trigger().Kind != agent.Event {
		s.Messages = nil
		if err := s.read(act.Snapshot()); err != nil {
			return res, err
		}
		answered, err := s.Waiting.Answer(act)
		if err != nil {
			return res, err
		}
		for _, a := range answered {
			s.Answers[a.ID] = a.Answer
		}
		if len(s.Waiting) > 0 {
			return res, res.suspend(&s, o)
		}
		resolved, err := s.resolve(g, o)
		if err != nil {
			return res, err
		}
		opts = append(opts, resolved...)
	}

	resp, err := genkit.Generate(adapter.WithActivation(ctx, act), g, append(opts, ai.WithMessages(s.Messages...))...)
	if err != nil {
		return res, err
	}
	if resp.FinishReason != ai.FinishReasonInterrupted {
		res.Response = resp
		return res, nil
	}
	s = snapshot{Messages: resp.History()}
	for _, p := range resp.Interrupts() {
		call, ours, err := callOf(p)
		switch {
		case err != nil:
			return res, fmt.Errorf("genkit: the interrupt of the tool %q: %w", p.ToolRequest.Name, err)
		case ours:
		case o.Ask == nil:
			return res, fmt.Errorf("genkit: the interrupt of the tool %q was not made by Act, ActApproved or RequestApproval: set Options.Ask", p.ToolRequest.Name)
		default:
			if call, err = o.Ask(p); err != nil {
				return res, fmt.Errorf("genkit: Options.Ask for the tool %q: %w", p.ToolRequest.Name, err)
			}
		}
		if err := s.Waiting.Stage(act, p.ToolRequest.Ref, call); err != nil {
			return res, err
		}
	}
	return res, res.suspend(&s, o)
}

func (res *Result) suspend(s *snapshot, o Options) error {
	b, err := s.bytes()
	res.Suspended, res.Outcome = true, agent.Suspend(b, o.Timeout)
	return err
}

// resolve resolves the interrupts of the last message with their answers.
func (s *snapshot) resolve(g *genkit.Genkit, o Options) ([]ai.GenerateOption, error) {
	var responses, restarts []*ai.Part
	for _, p := range s.Messages[len(s.Messages)-1].Content {
		if !p.IsInterrupt() {
			continue
		}
		tool := genkit.LookupTool(g, p.ToolRequest.Name)
		if tool == nil {
			return nil, fmt.Errorf("genkit: the interrupted tool %q no longer exists: rewrite the snapshot in MigrateSnapshot", p.ToolRequest.Name)
		}
		answer := s.Answers[p.ToolRequest.Ref]
		_, ours, err := callOf(p)
		var part *ai.Part
		switch {
		case err != nil:
		case ours:
			part, err = restart(tool, p, answer)
		case o.Resume != nil:
			part, err = o.Resume(p, answer)
		default:
			part = tool.Respond(p, answer.Text(), nil)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("genkit: resume the tool %q: %w", p.ToolRequest.Name, err)
		case part.IsToolResponse():
			responses = append(responses, part)
		default:
			restarts = append(restarts, part)
		}
	}
	var opts []ai.GenerateOption
	if len(responses) > 0 {
		opts = append(opts, ai.WithToolResponses(responses...))
	}
	if len(restarts) > 0 {
		opts = append(opts, ai.WithToolRestarts(restarts...))
	}
	return opts, nil
}

// deterministic is a middleware that sorts tool results like their calls. It also gives a ref to
// calls that have none or the ref of an earlier call, because an answer belongs to one call.
func deterministic(next ai.ModelFunc) ai.ModelFunc {
	return func(ctx context.Context, req *ai.ModelRequest, cb ai.ModelStreamCallback) (*ai.ModelResponse, error) {
		var refs []string
		for _, m := range req.Messages {
			if m.Role == ai.RoleTool {
				slices.SortStableFunc(m.Content, func(a, b *ai.Part) int {
					return slices.Index(refs, refOf(a)) - slices.Index(refs, refOf(b))
				})
				continue
			}
			refs = nil
			for _, p := range m.Content {
				if p.IsToolRequest() {
					refs = append(refs, p.ToolRequest.Ref)
				}
			}
		}
		resp, err := next(ctx, req, cb)
		if err == nil && resp.Message != nil {
			seen := map[string]bool{"": true}
			for i, p := range resp.Message.Content {
				if !p.IsToolRequest() {
					continue
				}
				for n := 0; seen[p.ToolRequest.Ref]; n++ {
					p.ToolRequest.Ref = "call_" + strconv.Itoa(len(req.Messages)) + "_" + strconv.Itoa(i+n)
				}
				seen[p.ToolRequest.Ref] = true
			}
		}
		return resp, err
	}
}

// refOf returns the ref of a tool result.
func refOf(p *ai.Part) string {
	if p.ToolResponse == nil {
		return ""
	}
	return p.ToolResponse.Ref
}
