package state

import (
	"errors"
	"fmt"
	"reflect"

	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/migrate"
)

// The ids of the cells. Running jobs know them, so they never change.
const (
	memoryID       = "memory"
	replayCacheID  = "llm_cache"
	continuationID = "continuation"
	controlID      = "control"
	deferredID     = "deferred"
	ttlID          = "ttl"
)

// Cell is a cell of this package that holds messages.
type Cell interface {
	beamstate.PipelineState
	// open checks that the cell may be replaced, which may need a read, and returns the function
	// that clears it.
	open(sp beamstate.Provider, nowMS int64) (clearCell func() error, err error)
}

// valueOf makes the struct that embeds it a Value of T for Beam; the struct adds the id. It does
// not embed beamstate.Value, whose methods would bypass the handle.
type valueOf[T any] struct{}

// KeyCoderType tells Beam that the cell is not a map.
func (valueOf[T]) KeyCoderType() reflect.Type { return nil }

// CoderType tells Beam the type that the cell holds. It panics for an interface, which has no
// coder.
func (valueOf[T]) CoderType() reflect.Type {
	if t := reflect.TypeFor[T](); t.Kind() != reflect.Interface {
		return t
	}
	return nil
}

// StateType tells Beam that the cell holds one value.
func (valueOf[T]) StateType() beamstate.TypeEnum { return beamstate.TypeValue }

// opened keeps the handle, or the error, of the current method call, because the SDK may answer a
// second read after a failed one as if the cell were empty. Beam makes a new provider for each
// call. The cell keeps the last provider alive, so a new one has another address.
//
// Beam takes a cell by value, so go vet would report every method that Beam calls here as a copy.
// Those methods belong to other fields.
type opened[H any] struct {
	_      noCopy
	self   *opened[H] // the address at which this struct was made or first used; another one means a copy
	sp     beamstate.Provider
	handle H
	err    error
}

var (
	errCopied = errors.New("state: this cell is a copy, which would read what was stored before the call and lose data: " +
		"give the DoFn to Beam by pointer, give its methods pointer receivers, and do not copy cells")
	errUnfinished = errors.New("state: an earlier Open in this call panicked, so it is unknown what is stored: fail the bundle")
)

// UnmarshalJSON is called when Beam makes the cell on a worker. It reads nothing.
func (o *opened[H]) UnmarshalJSON([]byte) error {
	o.self = o
	return nil
}

// get returns what open returned for this provider. It calls open once per provider.
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

// noCopy makes go vet report copies.
type noCopy struct{}

// Lock exists for go vet.
func (*noCopy) Lock() {}

// Unlock exists for go vet.
func (*noCopy) Unlock() {}

// stored is the cell of one message as the SDK stores it. The SDK does not reliably return what
// was written before, so the cell is read once and its handle keeps the current content.
type stored[M migrate.Message] struct {
	value    beamstate.Value[M]
	sp       beamstate.Provider
	found    bool   // the cell holds a message
	from     uint32 // the old version that Open found, 0 if it was current
	migrated bool   // the cell still holds the old version
	written  int    // the value of Changes at the last save
	err      error  // of a failed RPC, after which the stored bytes are unknown
}

// bounded is a memory or a replay cache. Changes counts its changes.
type bounded[M migrate.Message] interface {
	Changes() int
	Empty() bool
	Blob() M
	Clear()
}

// Migrated reports whether Open found a message of an older version, and which version. The
// answer stays the same for the whole call.
func (s *stored[M]) Migrated() (from uint32, ok bool) { return s.from, s.from > 0 }

// read returns the message in the cell, migrated to the current version, or nil if the cell is
// empty.
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

// commit writes what content returns if it has changed or was migrated.
func (s *stored[M]) commit(changed bool, content func() (m M, present bool)) error {
	if s.err != nil || !changed && !s.migrated {
		return s.err
	}
	if m, present := content(); present {
		return s.write(m)
	}
	return s.clear()
}

// save commits a content that counts its changes. An empty content clears the cell.
func (s *stored[M]) save(b bounded[M]) error {
	if err := s.commit(b.Changes() != s.written, func() (M, bool) { return b.Blob(), !b.Empty() }); err != nil {
		return err
	}
	s.written = b.Changes()
	return nil
}

// drop empties the content and clears the cell, also if the cell holds a blob without entries.
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

// clear clears the cell. It makes no RPC if the cell is empty.
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
