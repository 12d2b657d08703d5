package transforms

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// Beam looks a registered emitter up by the text of its type. A user's package may also be called
// events, and then its func(events.Envelope) has the same text as ours. So we do not register
// that type, and our DoFns do not ask for it. They use these two named types instead.
type (
	beamagentsEmitEvent      func(events.Envelope)
	beamagentsEmitKeyedEvent func([]byte, events.Envelope)
)

func init() {
	exec.RegisterEmitter(reflect.TypeFor[beamagentsEmitEvent](), func(n exec.ElementProcessor) exec.ReusableEmitter {
		e := &eventEmitter{next: n}
		e.function = beamagentsEmitEvent(func(env events.Envelope) { e.emit(env, nil) })
		return e
	})
	exec.RegisterEmitter(reflect.TypeFor[beamagentsEmitKeyedEvent](), func(n exec.ElementProcessor) exec.ReusableEmitter {
		e := &eventEmitter{next: n}
		e.function = beamagentsEmitKeyedEvent(func(key []byte, env events.Envelope) { e.emit(key, env) })
		return e
	})
}

// eventEmitter is the emitter that Beam keeps for the two types. Beam's generic emitters cannot
// have a named type, and its fallback for unregistered emitters uses reflection for each element.
type eventEmitter struct {
	next     exec.ElementProcessor
	function any

	ctx     context.Context //nolint:containedctx // Beam passes it to Init, before each call
	pane    typex.PaneInfo
	windows []typex.Window
	time    beam.EventTime
	element exec.FullValue // reused for each element, as in Beam's own emitters
}

// Init sets the pane, the windows and the timestamp of the elements that follow.
func (e *eventEmitter) Init(ctx context.Context, pane typex.PaneInfo, windows []typex.Window, t beam.EventTime) error {
	e.ctx, e.pane, e.windows, e.time = ctx, pane, windows, t
	return nil
}

// Value returns the function that Beam passes to a DoFn.
func (e *eventEmitter) Value() any { return e.function }

func (e *eventEmitter) emit(first, second any) {
	e.element = exec.FullValue{Pane: e.pane, Windows: e.windows, Timestamp: e.time, Elm: first, Elm2: second}
	if err := e.next.ProcessElement(e.ctx, &e.element); err != nil {
		panic(err) // an emitter has no result; this fails the bundle
	}
}
