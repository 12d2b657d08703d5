package eino

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudwego/eino/compose"

	"github.com/beamagents/beamagents-go/pkg/adapter"
	"github.com/beamagents/beamagents-go/pkg/agent"
)

// Options are the options of [Run].
type Options struct {
	// Timeout is the timeout of each suspension, as for agent.Suspend: at least 1 ms.
	Timeout time.Duration
	// Ask translates an interrupt that was not made by Act, ActApproved, RequestApproval or Tool
	// into a call. at is the interrupt, one of those in info.InterruptContexts. Without Ask such
	// an interrupt is an error.
	Ask func(info *compose.InterruptInfo, at *compose.InterruptCtx) (Call, error)
	// Data returns the data with which the component of such an interrupt is resumed. Without
	// Data it gets the Answer.
	Data func(Call, Answer) (any, error)
}

// Result is the result of [Run].
type Result[O any] struct {
	// Suspended reports that the graph waits. In that case, return the Outcome, which suspends
	// the activation.
	Suspended bool
	Outcome   agent.Outcome
	// Output is the output of the graph, if it does not wait.
	Output O
}

// Run runs a graph for the trigger of an activation. For an event it starts the graph with the
// input. For any other trigger it ignores the input and resumes the graph from the snapshot. If
// the trigger is a deadline or an expiry, every call is answered with the status EXPIRED.
//
// The graph must be compiled with [Store]. An error fails the activation.
func Run[I, O any](ctx context.Context, act *agent.Activation, graph compose.Runnable[I, O], input I, o Options, opts ...compose.Option) (Result[O], error) {
	var res Result[O]
	if o.Timeout < time.Millisecond {
		return res, fmt.Errorf("eino: Options.Timeout is %v; use at least 1ms", o.Timeout)
	}
	var s snapshot
	var st stored
	ctx = context.WithValue(adapter.WithActivation(ctx, act), storedKey{}, &st)
	// With a context that can interrupt the graph, Eino keeps the input of a component that runs
	// again.
	ctx, _ = compose.WithGraphInterrupt(ctx)
	if act.Trigger().Kind != agent.Event {
		if err := s.read(act.Snapshot()); err != nil {
			return res, err
		}
		answers, err := s.Waiting.Answer(act)
		switch {
		case err != nil:
			return res, err
		case answers == nil: // the approved call is staged and waits for its result
			return res, res.suspend(s, o)
		}
		data, err := s.data(answers, o)
		if err != nil {
			return res, err
		}
		st.checkpoint = s.Checkpoint
		ctx = compose.BatchResumeWithData(ctx, data)
	}

	output, err := graph.Invoke(ctx, input, append(slices.Clone(opts), compose.WithCheckPointID(checkpointID))...)
	if err == nil {
		res.Output = output
		return res, nil
	}
	info, interrupted := compose.ExtractInterruptInfo(err)
	if !interrupted {
		return res, err
	}
	if err := s.interrupted(act, st.checkpoint, info, o); err != nil {
		return res, err
	}
	return res, res.suspend(s, o)
}

func (res *Result[O]) suspend(s snapshot, o Options) error {
	b, err := s.bytes()
	res.Suspended, res.Outcome = true, agent.Suspend(b, o.Timeout)
	return err
}

// data returns the data with which the answered components are resumed, by the ids of their
// interrupts.
func (s *snapshot) data(answers []adapter.Answered, o Options) (map[string]any, error) {
	data := make(map[string]any, len(answers))
	for _, a := range answers {
		data[a.ID] = a.Answer
		if o.Data == nil || !slices.Contains(s.Foreign, a.ID) {
			continue
		}
		d, err := o.Data(a.Call, a.Answer)
		if err != nil {
			return nil, fmt.Errorf("eino: Options.Data for %q: %w", a.Call.Tool, err)
		}
		data[a.ID] = d
	}
	return data, nil
}

// interrupted takes the checkpoint of an interrupted graph, and stages the new calls.
func (s *snapshot) interrupted(act *agent.Activation, checkpoint []byte, info *compose.InterruptInfo, o Options) error {
	if checkpoint == nil {
		return errors.New("eino: the graph was interrupted and has no checkpoint: compile it with compose.WithCheckPointStore(eino.Store())")
	}
	points := ordered(info.InterruptContexts)
	checkpoint, ids, err := stable(checkpoint, points)
	if err != nil {
		return err
	}
	s.Checkpoint, s.Foreign = checkpoint, nil
	for _, p := range points {
		id := ids[p.ID]
		call, ours := p.Info.(Call)
		if !ours {
			s.Foreign = append(s.Foreign, id)
		}
		switch {
		case s.Waiting.Has(id):
			continue
		case ours:
		case o.Ask == nil:
			return fmt.Errorf("eino: the interrupt at %s has info of the unknown type %T: set Options.Ask", p.Address, p.Info)
		default:
			if call, err = o.Ask(info, p); err != nil {
				return fmt.Errorf("eino: Options.Ask for the interrupt at %s: %w", p.Address, err)
			}
		}
		if err := s.Waiting.Stage(act, id, call); err != nil {
			return err
		}
	}
	return nil
}
