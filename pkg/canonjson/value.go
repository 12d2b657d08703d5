package canonjson

import (
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/beamagents/beamagents-go/pkg/internal/jsontoken"
)

// flushBytes is the length from which buf is written to w.
const flushBytes = 4 << 10

// encoder appends Go values to buf. If it has a w, it writes buf to w and empties it each
// time that buf has grown to flushBytes.
type encoder struct {
	buf   []byte
	w     io.Writer
	own   []byte   // the buf of Write, kept for the next call
	names []string // of the members that are not written yet, of all open maps
	text  text
}

func (e *encoder) flush(least int) error {
	if e.w == nil || len(e.buf) < least {
		return nil
	}
	_, err := e.w.Write(e.buf)
	e.buf = e.buf[:0]
	if err != nil {
		return fmt.Errorf("canonjson: %w", err)
	}
	return nil
}

// value appends v, which lies inside depth arrays and objects.
func (e *encoder) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		e.null()
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case string:
		return e.str(v)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
	case float64:
		return e.float(v, 64)
	case json.Number:
		return e.number(v)
	case json.RawMessage:
		return e.raw(v, depth)
	case *big.Int:
		if v == nil {
			e.null()
		} else {
			e.buf = v.Append(e.buf, 10)
		}
	case []any:
		if v == nil {
			e.null()
			return nil
		}
		return e.array(depth, len(v), func(i int) any { return v[i] })
	case map[string]any:
		if v == nil {
			e.null()
			return nil
		}
		base := len(e.names)
		for name := range v {
			e.names = append(e.names, name)
		}
		return e.object(depth, base, func(name string) any { return v[name] })
	default:
		return e.reflect(v, depth)
	}
	return nil
}

// reflect appends a v of a type that value does not list.
func (e *encoder) reflect(v any, depth int) error {
	r := reflect.ValueOf(v)
	if marshalsItself(r.Type()) {
		return unsupported(v, ownForm)
	}
	switch r.Kind() {
	case reflect.Bool:
		e.buf = strconv.AppendBool(e.buf, r.Bool())
	case reflect.String:
		return e.str(r.String())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = strconv.AppendInt(e.buf, r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		e.buf = strconv.AppendUint(e.buf, r.Uint(), 10)
	case reflect.Float32:
		return e.float(r.Float(), 32)
	case reflect.Float64:
		return e.float(r.Float(), 64)
	case reflect.Slice, reflect.Array:
		if r.Type().Elem().Kind() == reflect.Uint8 {
			return unsupported(v, ": bytes have no JSON form")
		}
		if r.Kind() == reflect.Slice && r.IsNil() {
			e.null()
			return nil
		}
		return e.array(depth, r.Len(), func(i int) any { return r.Index(i).Interface() })
	case reflect.Map:
		if r.Type().Key().Kind() != reflect.String {
			return unsupported(v, ": names are strings")
		}
		if marshalsItself(r.Type().Key()) {
			return unsupported(v, ": the type of its names"+ownForm)
		}
		if r.IsNil() {
			e.null()
			return nil
		}
		base := len(e.names)
		for k := r.MapRange(); k.Next(); {
			e.names = append(e.names, k.Key().String())
		}
		return e.object(depth, base, func(name string) any {
			return r.MapIndex(reflect.ValueOf(name).Convert(r.Type().Key())).Interface()
		})
	default:
		return unsupported(v, "")
	}
	return nil
}

var (
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

const ownForm = " has a form of its own; pass it as json.RawMessage"

// marshalsItself reports whether t, or a pointer to it, has a method that encoding/json
// calls. A pointer type also has the methods of the type that it points to.
func marshalsItself(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer {
		t = reflect.PointerTo(t)
	}
	return t.Implements(jsonMarshaler) || t.Implements(textMarshaler)
}

func unsupported(v any, why string) error {
	return fault(ErrType, -1, reflect.TypeOf(v).String()+why)
}

func (e *encoder) null() { e.buf = append(e.buf, "null"...) }

func (e *encoder) array(depth, n int, at func(i int) any) error {
	if depth >= MaxDepth {
		return fault(ErrDepth, -1, "")
	}
	e.buf = append(e.buf, '[')
	for i := range n {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(at(i), depth+1); err != nil {
			return err
		}
		if err := e.flush(flushBytes); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

// object appends an object whose names are e.names[base:], and removes these from e.names.
func (e *encoder) object(depth, base int, get func(name string) any) error {
	if depth >= MaxDepth {
		return fault(ErrDepth, -1, "")
	}
	slices.Sort(e.names[base:])
	e.buf = append(e.buf, '{')
	for i, n := base, len(e.names); i < n; i++ {
		if i > base {
			e.buf = append(e.buf, ',')
		}
		name := e.names[i]
		if err := e.str(name); err != nil {
			return err
		}
		e.buf = append(e.buf, ':')
		if err := e.value(get(name), depth+1); err != nil {
			return err
		}
		if err := e.flush(flushBytes); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	clear(e.names[base:]) // or the pool would keep the caller's strings in memory
	e.names = e.names[:base]
	return nil
}

func (e *encoder) float(f float64, bits int) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fault(ErrNumber, -1, "not finite")
	}
	e.buf = appendFloat(e.buf, f, bits)
	return nil
}

func (e *encoder) number(n json.Number) error {
	parts, ok := jsontoken.ScanNumber(string(n))
	if !ok || parts.End < len(n) {
		return fault(ErrSyntax, parts.End, "json.Number")
	}
	if e.buf, ok = appendNumber(e.buf, string(n), parts); !ok {
		return fault(ErrNumber, 0, beyondF64)
	}
	return nil
}

// raw appends the canonical form of m. Nil is null, as for encoding/json.
func (e *encoder) raw(m json.RawMessage, depth int) error {
	if m == nil {
		e.null()
		return nil
	}
	out, err := e.text.canonicalize(e.buf, m, depth)
	if err != nil {
		return err
	}
	e.buf = out
	return nil
}

func (e *encoder) str(s string) error {
	if !utf8.ValidString(s) {
		return fault(ErrUnicode, -1, badUTF8)
	}
	e.buf = append(e.buf, '"')
	const piece = flushBytes / 4 // up to six times as long when it is escaped
	for e.w != nil && len(s) > piece {
		e.buf = jsontoken.AppendEscaped(e.buf, s[:piece])
		s = s[piece:]
		if err := e.flush(flushBytes); err != nil {
			return err
		}
	}
	e.buf = append(jsontoken.AppendEscaped(e.buf, s), '"')
	return nil
}
