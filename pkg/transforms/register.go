package transforms

import (
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
)

// registerDoFn registers the DoFn *F. process is the method expression of its ProcessElement, and
// call calls that method with the arguments that Beam passes.
//
// It does what register.DoFnNxM of the SDK does, and like that it uses no reflection for each
// element. But the compiler needs 12 s for each DoFn that is registered with the SDK's generics,
// and no noticeable time here.
//
// Beam finds the wrapper of a DoFn, and a registered emitter, by the text of its type, such as
// transforms.mapFn. A user's package may have a type with the same text. So the name of F begins
// with beamagents, and its emitters have only types of the language, of Beam and of our messages,
// or a type in emitters.go.
func registerDoFn[F any](process any, call func(f *F, args []any) []any) {
	t := reflect.TypeOf(process)
	in, out := slices.Collect(t.Ins()), slices.Collect(t.Outs())
	bound := reflect.FuncOf(in[1:], out, false) // in[0] is the receiver
	reflectx.RegisterStructWrapper(reflect.TypeFor[F](), func(fn any) map[string]reflectx.Func {
		f, ok := fn.(*F)
		if !ok {
			return nil // another type of this name: Beam finds its methods by reflection
		}
		methods := map[string]reflectx.Func{
			"ProcessElement": &processElement{
				name: t.String(), bound: bound, call: func(args []any) []any { return call(f, args) },
			},
		}
		if s, ok := fn.(interface{ Setup() error }); ok {
			methods["Setup"] = reflectx.MakeFunc(s.Setup)
		}
		return methods
	})
	beam.RegisterDoFn(reflect.TypeFor[*F]()) // it looks at the methods, so it must come second
}

// processElement is a reflectx.Func: a method bound to its DoFn.
type processElement struct {
	name  string
	bound reflect.Type
	call  func(args []any) []any
}

func (p *processElement) Name() string { return p.name }

func (p *processElement) Type() reflect.Type { return p.bound }

func (p *processElement) Call(args []any) []any { return p.call(args) }

// noError is the result of a ProcessElement that succeeded; Beam only reads it.
var noError = []any{nil}

// result is the result of a ProcessElement that returns an error.
func result(err error) []any {
	if err == nil {
		return noError
	}
	return []any{err}
}
