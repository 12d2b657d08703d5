package agent

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/modelcall"
	"github.com/beamagents/beamagents-go/pkg/replay"
)

// ErrTokenBudget says that the model responses of the activation have more tokens than
// AgentParams.MaxTokens. The activation fails.
var ErrTokenBudget = modelcall.ErrTokenBudget

// ModelCall identifies a call of [Activation.CallModel]: two calls with equal fields are the same
// call. Messages, Tools and Params are values that package canonjson takes: maps, slices,
// strings, numbers, or a json.RawMessage.
type ModelCall struct {
	Model    string
	Messages any
	Tools    any
	Params   any
	// Fresh asks for a new answer after each resume.
	Fresh bool
}

// WithFresh returns a context for requests of [Activation.HTTPClient] that shall get a new answer
// after each resume.
func WithFresh(ctx context.Context) context.Context { return modelcall.WithFresh(ctx) }

// HTTPClient returns an HTTP client for the SDK of a model provider. If this activation, or one
// that it resumes, has made the same request before, the client answers it from the replay cache
// of the key. Complete responses with a 2xx status are recorded while they are read.
//
// Several goroutines may use the client at once. After the activation has ended, each request
// fails with [ErrActivationEnded].
func (a *Activation) HTTPClient() *http.Client { return a.modelCalls().Client() }

// CallModel is for model calls that are not made over HTTP. It returns the recorded answer of the
// call, or calls model and records what it returns. An error of model is returned unchanged and
// not recorded. A call that succeeds advances the step of the activation.
//
// Several goroutines may call CallModel at once. After the activation has ended, it returns
// [ErrActivationEnded].
func (a *Activation) CallModel(ctx context.Context, call ModelCall, model func(context.Context) ([]byte, error)) ([]byte, error) {
	body, key, err := a.modelCalls().Call(ctx, modelcall.Request(call), model)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return nil, ErrActivationEnded
	}
	a.staged.calls = append(a.staged.calls, callStep{key: key, step: a.staged.Step, intents: len(a.staged.Intents)})
	a.staged.Step++
	return bytes.Clone(body), nil
}

// modelCalls returns the model calls of the activation, and begins them at first use.
func (a *Activation) modelCalls() *modelcall.Calls {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls != nil {
		return a.calls
	}
	config := a.start.Calls
	config.Key, config.Seq, config.Ended = a.start.Key, a.start.Seq, ErrActivationEnded
	if open := config.Cache; open != nil {
		config.Cache = func() (*replay.Cache, error) {
			a.mu.Lock() // the lock: another goroutine may be opening the memory
			defer a.mu.Unlock()
			if a.ended {
				return nil, ErrActivationEnded
			}
			return open()
		}
	}
	calls := modelcall.Begin(config)
	if a.ended {
		calls.End()
	}
	a.calls = calls
	return calls
}

// callStep is a call before it has its final step.
type callStep struct {
	key     string
	step    uint32
	intents int // how many intents were staged before the call
}

// numberCalls numbers the calls between two intents in the order of their cache keys. The order
// in which goroutines make them differs from run to run.
func numberCalls(calls []callStep) map[string]uint32 {
	if len(calls) == 0 {
		return nil
	}
	steps := map[string]uint32{}
	for len(calls) > 0 {
		n := slices.IndexFunc(calls, func(c callStep) bool { return c.intents != calls[0].intents })
		if n < 0 {
			n = len(calls)
		}
		between := slices.Clone(calls[:n])
		slices.SortFunc(between, func(x, y callStep) int { return strings.Compare(x.key, y.key) })
		for i, c := range between {
			steps[c.key] = calls[i].step
		}
		calls = calls[n:]
	}
	return steps
}

// Prepare calls the Setup of an agent, and returns the transport for its HTTP calls, or nil for
// the default transport. It is for runtimes.
func Prepare(ctx context.Context, a Agent) (http.RoundTripper, error) {
	if p, ok := a.(Preparer); ok {
		if err := p.Setup(ctx); err != nil {
			return nil, err
		}
	}
	if t, ok := a.(ModelTransporter); ok {
		return t.ModelTransport(), nil
	}
	return nil, nil //nolint:nilnil // nil means the default transport
}
