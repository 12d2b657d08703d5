package transforms

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*keyByRunFn).ProcessElement, func(f *keyByRunFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].(events.Envelope), a[3].(func([]byte, events.Envelope)), a[4].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*traceRunFn).ProcessElement, func(f *traceRunFn, a []any) []any {
		return result(f.ProcessElement(a[0].(beam.Window), a[1].([]byte), a[2].(func(*events.Envelope) bool), a[3].(func(beam.EventTime, *pb.TraceEvent))))
	})
	register.Iter1[events.Envelope]()
	register.Emitter2[beam.EventTime, *pb.TraceEvent]()
}

// EventTraces is the result of [EventsToTraces].
type EventTraces struct {
	// Traces: PCollection<*pb.TraceEvent>.
	Traces beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// EventsToTraces makes the trace of each run from the events of a
// PCollection<events.Envelope>: its turns, tool calls, model usage and errors, with
// the times they took.
//
//	from                                  TraceEvent
//	first event of the run                ACTIVATION_START, the root
//	first event to last (agent_end)       ACTIVATION_END, the same span as the root
//	turn_start to turn_end                LLM_CALL; parent: the root
//	tool_execution_start to tool_end      TOOL_CALL; parent: the latest turn, else the root
//	subagent_start to subagent_end        TOOL_CALL; parent: the same
//	error, persistence_failed,
//	command_dead_lettered                 ERROR; parent: the same
//	model_usage_bound                     no span: usage of the latest turn, else of the root,
//	                                      where no turn_end or agent_end says it
//
// A call begins with its tool_start if no tool_execution_start comes, and one that is
// denied ends with its permission_denied. What has no beginning has no width; what has
// no end by the end of the run ends there, with the attribute beam_agents.incomplete.
// A turn that starts again is another span. All other types are left out. The
// attributes are in docs/events.md; a value is at most 4 KiB.
//
// Events are grouped by metadata.session_id and metadata.run_id and put in the order of
// metadata.sequence, so neither the order nor the repetition of elements matters, and
// ids are a function of session, run and sequence. An event of the table without these
// members, without timestamp_ms, or with a payload that breaks the protocol is a dead
// letter malformed_event.
//
// It groups by key: in a stream, put a session window of the longest pause within a run
// in front, or nothing comes out. A run that falls into several windows is as many
// pieces of one trace, each with a root. The events of a run, without those that are
// left out, are in memory at once. In the global window a TraceEvent is at its end_ms,
// else at the end of its window.
func EventsToTraces(s beam.Scope, col beam.PCollection) EventTraces {
	s = s.Scope("EventsToTraces")
	keyed, errs := beam.ParDo2(s, &keyByRunFn{}, col)
	traces := beam.ParDo(s, &traceRunFn{}, beam.GroupByKey(s, keyed))
	return EventTraces{Traces: traces, Errors: errs}
}

type keyByRunFn struct{}

func (*keyByRunFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, env events.Envelope,
	emit func([]byte, events.Envelope), errs func(*pb.ActivationErrorRecord),
) error {
	if !tracedTypes[env.Type] {
		return nil
	}
	p, code, text := positionOf(env.Metadata)
	if code == "" {
		if _, err := events.FromEnvelope(env); err != nil {
			code, text = eventFault(err)
		}
	}
	if code != "" {
		l, err := eventLetter(ts, env, code, text)
		if err != nil {
			return err
		}
		return bury(ctx, l, errs)
	}
	eventsTraced.Inc(ctx, 1)
	key, err := runKey(p.sessionID, p.runID)
	if err != nil {
		return err
	}
	emit(key, env)
	return nil
}

// runKey is one key for two texts: their JSON list, which no other two texts share.
func runKey(sessionID, runID string) ([]byte, error) {
	v, err := events.ValueOf([]string{sessionID, runID})
	return v.AppendJSON(nil), err
}

type traceRunFn struct{}

func (*traceRunFn) ProcessElement(
	w beam.Window, key []byte, next func(*events.Envelope) bool, emit func(beam.EventTime, *pb.TraceEvent),
) error {
	var run []runEvent
	for env := (events.Envelope{}); next(&env); {
		e := runEvent{env: env}
		var code deadletter.Code
		var text string
		if e.runPosition, code, text = positionOf(env.Metadata); code != "" {
			return fmt.Errorf("transforms.EventsToTraces: %s: %s", code, text)
		}
		var err error
		if e.event, err = events.FromEnvelope(env); err != nil {
			return fmt.Errorf("transforms.EventsToTraces: %w", err)
		}
		run = append(run, e)
	}
	_, global := w.(window.GlobalWindow)
	for _, t := range traceRun(key, run) {
		at := w.MaxTimestamp()
		if global {
			at = mtime.FromMilliseconds(t.GetEndMs())
		}
		emit(at, t)
	}
	return nil
}
