package state

import (
	"errors"
	"fmt"
	"reflect"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/migrate"
)

// The ids of the cells, in running jobs for ever.
const (
	memoryID       = "memory"
	replayCacheID  = "llm_cache"
	continuationID = "continuation"
	controlID      = "control"
	deferredID     = "deferred"
	ttlID          = "ttl"
)

// Cell is one of the cells of this package that hold messages.
type Cell interface {
	beamstate.PipelineState
	// open makes sure that the cell may be replaced, reading it if that is needed, and
	// returns the function that clears it.
	open(sp beamstate.Provider, nowMS int64) (clearCell func() error, err error)
}

// valueOf makes the struct that embeds it a Value of T for Beam, but for its id. It is
// not a beamstate.Value, whose methods would go round the handle.
type valueOf[T any] struct{}

// KeyCoderType tells Beam that the cell is no map.
func (valueOf[T]) KeyCoderType() reflect.Type { return nil }

// CoderType tells Beam what the cell holds. An interface has no coder.
func (valueOf[T]) CoderType() reflect.Type {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Interface {
		return t
	}
	return nil
}

// StateType tells Beam that the cell holds one value.
func (valueOf[T]) StateType() beamstate.TypeEnum { return beamstate.TypeValue }

// opened is the handle of the method call that is running, or why there is none: the SDK
// may answer a second read after a failed one as if the cell were empty. Beam makes a
// provider for each call; the cell keeps the last, so no other can have its address.
//
// Beam takes a cell by value, so the methods that it calls are those of other fields: with
// a value receiver here they would be copies in the eyes of go vet.
type opened[H any] struct {
	_      noCopy
	self   *opened[H] // this struct, since it was made on a worker, or first used
	sp     beamstate.Provider
	handle H
	err    error
}

var (
	errCopied = errors.New("state: this cell is a copy, which would read what was stored before the call and lose data: " +
		"give the DoFn to Beam by pointer, give its methods pointer receivers, and copy no cell")
	errUnfinished = errors.New("state: an earlier Open in this call panicked, so that nobody knows what is stored: fail the bundle")
)

// UnmarshalJSON is how Beam makes a cell on a worker. There is nothing in it to read.
func (o *opened[H]) UnmarshalJSON([]byte) error {
	o.self = o
	return nil
}

// get returns what open returned when it was last called for this provider.
func (o *opened[H]) get(sp beamstate.Provider, open func() (H, error)) (H, error) {
	var none H
	if o.self == nil {
		o.self = o
	}
	if o.self != o {
		return none, errCopied
	}
	if o.sp == nil || o.sp != sp {
		o.sp, o.handle, o.err = sp, none, errUnfinished
		o.handle, o.err = open()
	}
	return o.handle, o.err
}

// noCopy lets go vet report a copy.
type noCopy struct{}

// Lock is for go vet.
func (*noCopy) Lock() {}

// Unlock is for go vet.
func (*noCopy) Unlock() {}

// stored is a cell with one message, as the SDK stores it. The SDK's own copy of what was
// written is not to be trusted, so a cell is read once and its handle keeps the truth.
type stored[M migrate.Message] struct {
	value    beamstate.Value[M]
	sp       beamstate.Provider
	found    bool   // there is something in the cell
	from     uint32 // the version that this call found, 0 if it was current
	migrated bool   // what is in the cell has that version still
	written  int    // Changes of a bounded content at its last save
	err      error  // of an RPC: nobody knows what it left
}

// bounded is a memory or a replay cache: it counts what is done to it.
type bounded[M migrate.Message] interface {
	Changes() int
	Empty() bool
	Blob() M
	Clear()
}

// Migrated reports whether Open found a message of an older version, and of which. It says
// so for the whole call.
func (s *stored[M]) Migrated() (from uint32, ok bool) { return s.from, s.from > 0 }

// read returns the message in the cell at the current version, nil if there is none.
func read[M migrate.Message](sp beamstate.Provider, id string, schema *migrate.Schema) (M, *stored[M], error) {
	s := &stored[M]{value: beamstate.MakeValueState[M](id), sp: sp}
	var none M
	m, found, err := s.value.Read(sp)
	if err != nil {
		return none, nil, fmt.Errorf("state: read %s: %w", id, err)
	}
	if !found {
		return none, s, nil
	}
	current, err := migrate.ToCurrent(schema, m)
	if err != nil {
		return none, nil, fmt.Errorf("state: cell %s: %w", id, err)
	}
	s.found = true
	if proto.Message(current) != proto.Message(m) {
		s.from, _ = migrate.StoredVersion(m)
		s.migrated = true
	}
	return current, s, nil
}

// commit brings the cell to what content returns, if that has changed.
func (s *stored[M]) commit(changed bool, content func() (m M, present bool)) error {
	if s.err != nil || !changed && !s.migrated {
		return s.err
	}
	if m, present := content(); present {
		return s.write(m)
	}
	return s.clear()
}

// save is commit of a content that counts its changes; an empty one clears the cell.
func (s *stored[M]) save(b bounded[M]) error {
	if err := s.commit(b.Changes() != s.written, func() (M, bool) { return b.Blob(), !b.Empty() }); err != nil {
		return err
	}
	s.written = b.Changes()
	return nil
}

// drop empties the content and the cell, which may hold a blob without entries, too.
func (s *stored[M]) drop(b bounded[M]) error {
	b.Clear()
	s.written = b.Changes()
	return s.clear()
}

func (s *stored[M]) write(m M) error {
	if err := s.value.Write(s.sp, m); err != nil {
		s.err = fmt.Errorf("state: write %s: %w", s.value.Key, err)
		return s.err
	}
	s.found, s.migrated = true, false
	return nil
}

// clear costs nothing if the cell is empty.
func (s *stored[M]) clear() error {
	if s.err != nil || !s.found {
		return s.err
	}
	if err := s.value.Clear(s.sp); err != nil {
		s.err = fmt.Errorf("state: clear %s: %w", s.value.Key, err)
		return s.err
	}
	s.found, s.migrated = false, false
	return nil
}
