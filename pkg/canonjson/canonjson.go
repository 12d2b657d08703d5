// Package canonjson writes the canonical JSON form of a value: the one sequence of bytes
// that identities, cache keys and tool arguments are computed from.
//
//	Marshal(map[string]any{"z": 1e16, "a": "é"}) // {"a":"é","z":1e+16}
//
// # Behaviour
//
// The form has no white space. Members are sorted by the code points of their names, which
// is the order of their UTF-8 bytes. Text is UTF-8, and only these escapes are written: \"
// \\ \b \t \n \f \r, and \u00xx in lower case for the other bytes below 0x20.
//
// A number without a fraction and without an exponent is an integer of any size and keeps
// its digits (-0 becomes 0). Every other number is a float64 and is written with the
// shortest digits that read back as the same float64: in plain form with a fraction (2.0,
// 0.0001, 1000000000000000.0) while its decimal exponent is between -4 and 15, and as
// 1e+16 or 1.5e-07 beyond. So 1e2 becomes 100.0, -0.0 is kept, 1e-400 becomes 0.0, and
// 1e400 is an error.
//
// Text is refused with an [*Error] that tells the byte offset if it is not exactly one JSON
// text (RFC 8259), has a name twice in one object, a number beyond float64, bytes that are
// not UTF-8, or lone surrogates, or nests deeper than [MaxDepth].
//
// Canonical text is its own canonical form, and equal values give equal bytes, however they
// were spelled. An integer and a float are different values: 1 and 1.0 stay apart.
//
// Go values of these types are accepted; every other type is refused with [ErrType]:
//
//   - nil, nil slices, nil maps and a nil *big.Int, as null
//   - bools, strings, signed and unsigned integers (not uintptr), float32 and float64, and
//     named types of these kinds; a float always gets a fraction or an exponent, and a
//     float32 has the shortest digits that read back as the same float32
//   - *big.Int and json.Number
//   - json.RawMessage, whose canonical form is put in its place
//   - slices and arrays of accepted types, but not of bytes
//   - maps with string keys and values of accepted types
//
// Structs and pointers are refused. So is every type, a map's key type included, with a
// MarshalJSON or MarshalText method on itself or on a pointer to it: such a type has a JSON
// form of its own, which the caller marshals and passes as json.RawMessage.
//
// # Limits
//
// Values nest at most [MaxDepth] levels, so that no input exhausts the stack. The time is
// proportional to the length of the text, times a logarithm for members that are not sorted
// yet. [Write] holds a few KiB of text at a time, but the canonical form of a json.RawMessage,
// json.Number or *big.Int as a whole.
//
// # Differences
//
// RFC 8785 sorts names by UTF-16 code units, so that U+FFFD and U+1F600 change places. It
// writes every number as ECMAScript does (1.0 as 1, 1e16 as 10000000000000000, -0.0 as 0)
// and so loses integers above 2^53.
//
// encoding/json escapes <, >, &, U+2028 and U+2029, writes 1.0 as 1 and uses other limits
// for exponents. It reads integers as float64, replaces invalid UTF-8 and lone surrogates
// by U+FFFD, and takes the last of two equal names.
//
// Some other writers of this form take the last of two equal names, and some refuse
// integers above a number of digits.
package canonjson

import (
	"io"
	"sync"
)

// MaxDepth is how deep arrays and objects may be nested: [[1]] is 2 deep.
const MaxDepth = 1000

// Marshal returns the canonical form of v. What v may be is listed in the package
// documentation. The error is an [*Error].
func Marshal(v any) ([]byte, error) {
	return Append(nil, v)
}

// Append appends the canonical form of v to dst, as [Marshal] would return it. On
// an error it returns dst unchanged, and an [*Error].
func Append(dst []byte, v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.buf = dst
	err := e.value(v, 0)
	out := e.buf
	if err != nil {
		return dst, err
	}
	return out, nil
}

// AppendString is [Append] for a string, without the allocation of making it an
// any.
func AppendString(dst []byte, s string) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.buf = dst
	err := e.str(s)
	out := e.buf
	if err != nil {
		return dst, err
	}
	return out, nil
}

// Write writes the canonical form of v to w, most often a hash, in pieces of about
// 4 KiB; a json.RawMessage, json.Number or *big.Int comes in one piece. On an error,
// an [*Error] or that of w, a part may have been written.
func Write(w io.Writer, v any) error { return WriteNested(w, v, 0) }

// WriteNested is [Write] for a value that the caller writes inside depth arrays and objects
// of its own. These count towards [MaxDepth].
func WriteNested(w io.Writer, v any, depth int) error {
	e := encoders.Get().(*encoder)
	defer e.release()
	e.w, e.buf = w, e.own[:0]
	err := e.value(v, depth)
	if err == nil {
		err = e.flush(1)
	}
	e.own = e.buf[:0]
	return err
}

// Canonicalize appends the canonical form of src, one JSON text, to dst. On an
// error it returns dst unchanged, and an [*Error] whose Offset counts in src. The two
// slices must not overlap.
func Canonicalize(dst, src []byte) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	out, err := e.text.canonicalize(dst, src, 0)
	if err != nil {
		return dst, err
	}
	return out, nil
}

// encoders lets calls share their working memory.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// keepBytes bounds the memory that a pooled encoder holds on to.
const keepBytes = 64 << 10

func (e *encoder) release() {
	e.w, e.buf = nil, nil // also when w has panicked
	clear(e.names)        // after an error
	e.names = keep(e.names, keepBytes/16)
	e.own = keep(e.own, keepBytes)
	e.text.release()
	encoders.Put(e)
}

// keep empties s for its next use, or drops it where it has grown beyond limit.
func keep[T any](s []T, limit int) []T {
	if cap(s) > limit {
		return nil
	}
	return s[:0]
}
