package transforms

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/events"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsDeadCommandFn).ProcessElement, func(f *beamagentsDeadCommandFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(beam.EventTime), a[2].(events.Envelope), a[3].(func(*pb.ActivationErrorRecord))))
	})
}

// DeadLetteredCommands makes a dead letter of each command_dead_lettered event of a
// PCollection<events.Envelope>, so that it joins the dead letters of the pipeline. It ignores
// other events. The result is a PCollection<*pb.ActivationErrorRecord> with
//
//	entity_key     metadata.session_id, else empty
//	event_time_ms  metadata.timestamp_ms, else the element's timestamp
//	reason, code   activation_error, error: the agent's work failed, for good
//	error          command <command_id> (<command_type>) in lane <lane> failed after
//	               <attempts> attempts: <error>
//	input          the event in canonical form, of kind event
//
// An event without metadata is accepted, so that no failed command is lost. An event whose
// payload breaks the protocol becomes a dead letter malformed_event.
func DeadLetteredCommands(s beam.Scope, col beam.PCollection) beam.PCollection {
	mustBeEvents("DeadLetteredCommands", col)
	return beam.ParDo(s.Scope("DeadLetteredCommands"), &beamagentsDeadCommandFn{}, col)
}

type beamagentsDeadCommandFn struct{}

func (*beamagentsDeadCommandFn) ProcessElement(
	ctx context.Context, ts beam.EventTime, env events.Envelope, errs func(*pb.ActivationErrorRecord),
) error {
	if env.Type != events.EventCommandDeadLettered {
		return nil
	}
	event, err := events.FromEnvelope(env)
	var code deadletter.Code
	var text string
	if err != nil {
		code, text = eventFault(err)
	}
	l, err := eventLetter(ts, env, code, text)
	if err != nil {
		return err
	}
	if c, ok := event.(events.CommandDeadLettered); ok {
		attempts := "attempts"
		if c.Attempts == 1 {
			attempts = "attempt"
		}
		l.Reason, l.Code = deadletter.ActivationError, deadletter.Failed
		l.Error = fmt.Sprintf("command %s (%s) in lane %s failed after %d %s: %s",
			c.CommandID, c.CommandType, c.Lane, c.Attempts, attempts, c.Error)
	}
	return emitLetter(ctx, l, errs)
}
