package transforms

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsKeyByRunFn).ProcessElement, func(f *beamagentsKeyByRunFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].(events.Envelope), a[3].(beamagentsEmitKeyedEvent), a[4].(func(*pb.ActivationErrorRecord))))
	})
	registerDoFn((*beamagentsTraceRunFn).ProcessElement, func(f *beamagentsTraceRunFn, a []any) []any {
		return result(f.ProcessElement(a[0].(beam.Window), a[1].([]byte), a[2].(func(*events.Envelope) bool), a[3].(func(beam.EventTime, *pb.TraceEvent))))
	})
	register.Iter1[events.Envelope]() // Beam finds iterators by the type itself
	register.Emitter2[beam.EventTime, *pb.TraceEvent]()
}

// EventTraces is the result of [EventsToTraces].
type EventTraces struct {
	// Traces: PCollection<*pb.TraceEvent>.
	Traces beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>.
	Errors beam.PCollection
}

// EventsToTraces makes the trace of each run from the events of a PCollection<events.Envelope>:
// turns, tool calls, model usage and errors, with their times.
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
// A call begins with its tool_start if no tool_execution_start follows, and a denied call ends
// with its permission_denied. If the beginning of a span is missing, it starts where it ends. If
// the end is missing, it ends with the run and has the attribute beam_agents.incomplete. A turn
// that starts again is a second span. Events of other types make no spans. docs/events.md lists
// the attributes. A value has at most 4 KiB.
//
// Events are grouped by metadata.session_id and metadata.run_id and ordered by metadata.sequence.
// So the order and the repetition of elements do not matter. Ids are a function of session, run
// and sequence.
//
// An event of the table is a dead letter malformed_event if it lacks one of these members or
// timestamp_ms, or if its payload breaks the protocol. An event of another type is part of its
// run if it has all these members: it can be the first or the last event of the run, and it
// extends session windows. If it lacks one, it is ignored.
//
// EventsToTraces groups by key. In a stream, put the input in session windows with a gap longer
// than the longest pause within a run, or nothing comes out. A run that falls into several
// windows becomes one trace with a root span for each window. A worker holds the events of a run
// in memory, but at most two of the types that are not traced.
//
// The timestamp of a TraceEvent is the end of its window, as for any group. The times of the span
// are start_ms and end_ms of the message. If you set timestamps from them, the elements are late
// for windows downstream.
func EventsToTraces(s beam.Scope, col beam.PCollection) EventTraces {
	mustBeEvents("EventsToTraces", col)
	s = s.Scope("EventsToTraces")
	keyed, errs := beam.ParDo2(s, &beamagentsKeyByRunFn{}, col)
	traces := beam.ParDo(s, &beamagentsTraceRunFn{}, beam.GroupByKey(s, keyed))
	return EventTraces{Traces: traces, Errors: errs}
}

type beamagentsKeyByRunFn struct{}

func (*beamagentsKeyByRunFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, env events.Envelope,
	emit beamagentsEmitKeyedEvent, errs func(*pb.ActivationErrorRecord),
) error {
	p, code, text := positionOf(env.Metadata)
	traced := tracedTypes[env.Type]
	switch {
	case !traced && code != "":
		return nil
	case !traced: // only its position counts
		env.Payload = events.Value{}
	case code == "":
		if _, err := events.FromEnvelope(env); err != nil {
			code, text = eventFault(err)
		}
	}
	if code != "" {
		l, err := eventLetter(ts, env, code, text)
		if err != nil {
			return err
		}
		return emitLetter(ctx, l, errs)
	}
	if traced {
		eventsTraced.Inc(ctx, 1)
	}
	key, err := runKey(p.sessionID, p.runID)
	if err != nil {
		return err
	}
	emit(key, env)
	return nil
}

// runKey returns a key that is unique for the two ids: the ids as a JSON list.
func runKey(sessionID, runID string) ([]byte, error) {
	v, err := events.ValueOf([]string{sessionID, runID})
	return v.AppendJSON(nil), err
}

type beamagentsTraceRunFn struct{}

func (*beamagentsTraceRunFn) ProcessElement(
	w beam.Window, key []byte, next func(*events.Envelope) bool, emit func(beam.EventTime, *pb.TraceEvent),
) error {
	var run, others []runEvent
	for env := (events.Envelope{}); next(&env); {
		p, code, text := positionOf(env.Metadata)
		if code != "" {
			return fmt.Errorf("transforms.EventsToTraces: %s: %s", code, text)
		}
		if !tracedTypes[env.Type] {
			others = widen(others, runEvent{runPosition: p})
			continue
		}
		event, err := events.FromEnvelope(env)
		if err != nil {
			return fmt.Errorf("transforms.EventsToTraces: %w", err)
		}
		run = append(run, runEvent{p, env, event})
	}
	for _, t := range traceRun(key, append(run, others...)) {
		// Runners stamp a group with the end of its window; the legacy direct runner stamps it
		// with the time of some element.
		emit(w.MaxTimestamp(), t)
	}
	return nil
}

// widen keeps the first and the last of a list of events. Of the events that are not traced, only
// these two change the trace.
func widen(ends []runEvent, e runEvent) []runEvent {
	switch {
	case len(ends) == 0:
		return []runEvent{e, e}
	case compareEvents(e, ends[0]) < 0:
		ends[0] = e
	case compareEvents(e, ends[1]) > 0:
		ends[1] = e
	}
	return ends
}
