package transforms

import (
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"

	"github.com/beamagents/beamagents-go/pkg/events"
)

// Beam finds a registered emitter by the text of its type. A user's package that is also
// called events has a func(events.Envelope) as well, so nobody may register that text,
// and no DoFn of ours may ask for it. These two types have names of their own instead.
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

// eventEmitter is what Beam keeps for an emitter. The generic ones of Beam have no named
// type, and the one without registration costs reflection for each element.
type eventEmitter struct {
	next     exec.ElementProcessor
	function any

	ctx     context.Context //nolint:containedctx // Beam hands it over before, not with, each call
	pane    typex.PaneInfo
	windows []typex.Window
	time    beam.EventTime
	element exec.FullValue // reused, as Beam's own emitters do
}

// Init takes the pane, the windows and the time of what is emitted from now on.
func (e *eventEmitter) Init(ctx context.Context, pane typex.PaneInfo, windows []typex.Window, t beam.EventTime) error {
	e.ctx, e.pane, e.windows, e.time = ctx, pane, windows, t
	return nil
}

// Value returns the function that a DoFn is given.
func (e *eventEmitter) Value() any { return e.function }

func (e *eventEmitter) emit(first, second any) {
	e.element = exec.FullValue{Pane: e.pane, Windows: e.windows, Timestamp: e.time, Elm: first, Elm2: second}
	if err := e.next.ProcessElement(e.ctx, &e.element); err != nil {
		panic(err) // an emitter has no result; this fails the bundle
	}
}
