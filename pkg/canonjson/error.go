package canonjson

import (
	"errors"
	"strconv"
)

// What an [*Error] wraps.
var (
	// ErrSyntax: not one JSON text.
	ErrSyntax = errors.New("invalid JSON")
	// ErrUnicode: bytes that are not UTF-8, or a lone surrogate.
	ErrUnicode = errors.New("invalid Unicode")
	// ErrNumber: a number beyond float64, or a float that is not finite.
	ErrNumber = errors.New("number out of range")
	// ErrDuplicate: the same name twice in one object.
	ErrDuplicate = errors.New("duplicate member")
	// ErrDepth: nested deeper than MaxDepth.
	ErrDepth = errors.New("nested too deep")
	// ErrType: a Go value that has no canonical form here.
	ErrType = errors.New("unsupported type")
)

// Error says why a text or a value has no canonical form, and where the fault is.
type Error struct {
	// Err is one of the errors of this package, for errors.Is.
	Err error
	// Offset is the byte offset of the fault in the text. For a duplicate it is that of the
	// later name. It is -1 if the fault is in a Go value, but in a json.RawMessage or a
	// json.Number it counts from the beginning of that text.
	Offset int
	// Detail says more about the fault and may be empty. It quotes at most 64 bytes of the
	// input.
	Detail string
}

// Error implements error.
func (e *Error) Error() string {
	s := "canonjson: " + e.Err.Error()
	if e.Offset >= 0 {
		s += " at byte " + strconv.Itoa(e.Offset)
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// fault returns an *Error as an error.
func fault(err error, offset int, detail string) error {
	return &Error{Err: err, Offset: offset, Detail: detail}
}

const (
	badUTF8   = "not UTF-8"
	noEnd     = "unexpected end"
	beyondF64 = "beyond float64"
)
