package transforms

import (
	"context"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/intent"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsRouteIntentsFn).ProcessElement, func(f *beamagentsRouteIntentsFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.ToolIntent), a[2].(func(*pb.ToolIntent)), a[3].(func(*pb.ToolIntent)), a[4].(func(*pb.ActivationErrorRecord))))
	})
}

// RoutedIntents is the result of [RouteIntents].
type RoutedIntents struct {
	// Tools: PCollection<*pb.ToolIntent>, for an effector to execute.
	Tools beam.PCollection
	// Approvals: PCollection<*pb.ToolIntent>, for a human to decide.
	Approvals beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with intents of other kinds.
	Errors beam.PCollection
}

// RouteIntents splits a PCollection<*pb.ToolIntent> by [intent.KindOf]. Only an intent of the
// kind APPROVAL is a request for approval; the kind TOOL and the unspecified kind are tool calls.
//
// An intent of any other kind is of a newer schema, so nobody may act on it. It becomes a dead
// letter unknown_kind that holds the intent and names the number of the kind. Verify intents that
// come from outside before you route them; the signature covers the kind.
//
// An intent that cannot be encoded is a dead letter intent_dead_letter with code serialize. Only
// user code that is fused with RouteIntents can hand one over.
func RouteIntents(s beam.Scope, col beam.PCollection) RoutedIntents {
	tools, approvals, errs := beam.ParDo3(s.Scope("RouteIntents"), &beamagentsRouteIntentsFn{}, col)
	return RoutedIntents{Tools: tools, Approvals: approvals, Errors: errs}
}

type beamagentsRouteIntentsFn struct{}

func (*beamagentsRouteIntentsFn) ProcessElement(
	ctx context.Context, in *pb.ToolIntent,
	tools, approvals func(*pb.ToolIntent), errs func(*pb.ActivationErrorRecord),
) error {
	switch kind := intent.KindOf(in); {
	case kind == intent.Approval:
		return passIntent(ctx, in, routedApprovalIntents, approvals, errs)
	case kind == intent.Tool, in == nil: // passIntent refuses nil
		return passIntent(ctx, in, routedTools, tools, errs)
	}
	return deadLetterIntent(ctx, in, deadletter.UnknownKind, deadletter.Code(deadletter.UnknownKind),
		fmt.Sprintf("kind %d is neither a tool call nor an approval", in.GetKind()), errs)
}
