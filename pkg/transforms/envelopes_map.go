package transforms

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsMapFn).ProcessElement, func(f *beamagentsMapFn, a []any) []any {
		return result(f.ProcessElement(a[0].(context.Context), a[1].(*pb.AgentEnvelope),
			a[2].(func(*pb.AgentEnvelope)), a[3].(func(*pb.ActivationErrorRecord))))
	})
	register.Emitter1[*pb.AgentEnvelope]()
}

// Mapped is the result of [MapEnvelopes].
type Mapped struct {
	// Envelopes: PCollection<*pb.AgentEnvelope>, the envelopes that the function returned.
	Envelopes beam.PCollection
	// Errors: PCollection<*pb.ActivationErrorRecord>, with the envelopes on which the function
	// failed.
	Errors beam.PCollection
}

// MapEnvelopes applies fn to each envelope of a PCollection<*pb.AgentEnvelope>.
//
// An element becomes a dead letter function_error, with the envelope as it came in, if fn returns
// an error or nil, panics, calls runtime.Goexit, or returns an envelope that ParseEnvelopes would
// refuse. The other elements of the bundle are not affected. fn gets a copy of the envelope,
// which it may change and return. The element keeps its timestamp, also when fn changes
// event_time_ms.
//
// fn has no time limit: while fn blocks, its bundle blocks. A panic in a goroutine that fn starts
// ends the worker, as everywhere in Go.
//
// A worker looks fn up by its name. So fn must be a function declared at package level;
// MapEnvelopes panics for a closure or a method value. Register fn in an init function with
// beam.RegisterFunction. Without that, a test binary, or a binary linked with -s -w, does not
// find it.
func MapEnvelopes(
	s beam.Scope, fn func(context.Context, *pb.AgentEnvelope) (*pb.AgentEnvelope, error), col beam.PCollection,
) Mapped {
	if err := checkFunction(fn); err != nil {
		panic(fmt.Errorf("transforms.MapEnvelopes: %w", err))
	}
	envelopes, errs := beam.ParDo2(s.Scope("MapEnvelopes"), &beamagentsMapFn{Fn: beam.EncodedFunc{Fn: reflectx.MakeFunc(fn)}}, col)
	return Mapped{Envelopes: envelopes, Errors: errs}
}

// checkFunction returns an error if a worker will not find fn.
func checkFunction(fn any) error {
	if reflect.ValueOf(fn).IsNil() {
		return errors.New("the function is nil")
	}
	name := reflectx.FunctionName(fn)
	// A function at package level is called pkg/path.Name, a closure pkg/path.Outer.func1, and a
	// method value pkg/path.T.Name-fm. Dots in the last element of a path are escaped.
	base := name[strings.LastIndexByte(name, '/')+1:]
	if strings.Count(base, ".") != 1 || strings.HasSuffix(base, "-fm") {
		return fmt.Errorf("%s is a closure or a method value, which a worker cannot find by its name: "+
			"use a function declared at package level", name)
	}
	if _, err := runtime.ResolveFunction(name, reflect.TypeOf(fn)); err != nil {
		return fmt.Errorf("a worker would not find %s by its name: call beam.RegisterFunction with it in an init function", name)
	}
	return nil
}

type beamagentsMapFn struct {
	Fn beam.EncodedFunc

	fn func(context.Context, *pb.AgentEnvelope) (*pb.AgentEnvelope, error)
}

// Setup resolves the function once.
func (f *beamagentsMapFn) Setup() error {
	resolved, err := runtime.ResolveFunction(f.Fn.Fn.Name(), f.Fn.Fn.Type())
	if err != nil {
		return fmt.Errorf("transforms.MapEnvelopes: %w", err)
	}
	fn, ok := resolved.(func(context.Context, *pb.AgentEnvelope) (*pb.AgentEnvelope, error))
	if !ok {
		return fmt.Errorf("transforms.MapEnvelopes: this worker has another function of the name %s: it is a %T", f.Fn.Fn.Name(), resolved)
	}
	f.fn = fn
	return nil
}

func (f *beamagentsMapFn) ProcessElement(
	ctx context.Context, env *pb.AgentEnvelope, emit func(*pb.AgentEnvelope), errs func(*pb.ActivationErrorRecord),
) error {
	out, code, text := f.call(ctx, proto.CloneOf(env))
	if code == "" {
		emit(out)
		return nil
	}
	l, err := envelopeLetter(env.GetEntityKey(), env)
	if err != nil {
		return err
	}
	l.Reason, l.Code, l.Error = deadletter.FunctionError, code, text
	return emitLetter(ctx, l, errs)
}

// call runs the user's function. A code other than "" says that it failed, and text says why.
func (f *beamagentsMapFn) call(ctx context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, deadletter.Code, string) {
	var out *pb.AgentEnvelope
	var code deadletter.Code
	var text string
	switch result, said := isolate.Run(ctx, 0, func(ctx context.Context) {
		result, err := f.fn(ctx, env)
		switch {
		case err != nil:
			code, text = deadletter.Failed, isolate.Describe(err)
		case result == nil:
			code, text = deadletter.Failed, "the function returned neither an envelope nor an error"
		default:
			out, code, text = detach(result)
		}
	}); result {
	case isolate.Panicked:
		return nil, deadletter.Panicked, said
	case isolate.Exited:
		return nil, deadletter.Exited, "the function called runtime.Goexit"
	}
	return out, code, text
}

// detach returns a copy of an envelope, made from its bytes, so that the user's code has no
// reference to it. It refuses an envelope that a later step could not use or its coder could not
// encode, because here the input is still known.
func detach(env *pb.AgentEnvelope) (*pb.AgentEnvelope, deadletter.Code, string) {
	b, err := proto.Marshal(env)
	if err != nil {
		return nil, deadletter.Failed, "the function returned an envelope that has no encoding: text that is not UTF-8"
	}
	out := new(pb.AgentEnvelope)
	if err := proto.Unmarshal(b, out); err != nil {
		return nil, deadletter.Failed, "the function returned an envelope that cannot be read: " + deadletter.Explain(b, out)
	}
	if _, text := unusable(out); text != "" {
		return nil, deadletter.Failed, "the function returned an envelope that cannot be used: " + text
	}
	return out, "", ""
}
