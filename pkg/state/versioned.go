package state

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode"
	"unicode/utf8"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/coder"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/beamagents/beamagents-go/pkg/coders"
	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Versioned is the cell of your own versioned message. The message is a pointer to generated code
// that is registered with coders.Register and has a field `uint32 state_schema_version`.
//
//	state.Versioned[*supportpb.Customer]{Key: "customer"}
//
// beam.ParDo panics if Key is missing, if the message has no such field, or if it is not
// registered.
type Versioned[M migrate.Message] struct {
	Key
	versionedCell[M]
	opened[*Handle[M]]
}

// Key is the id of a [Versioned] cell. Do not change it while the job lives. It must not begin
// with an upper-case letter: Beam replaces a missing id by the name of the field, and then
// renaming the field would orphan the stored state.
type Key string

// StateKey returns the id of the cell.
func (k Key) StateKey() string { return string(k) }

// KeyCoderType tells Beam that the cell is not a map. It panics if the id is missing. Beam calls
// it when a pipeline is built, but not when a DoFn is registered, where cells have no id yet.
func (k Key) KeyCoderType() reflect.Type {
	if first, _ := utf8.DecodeRuneInString(string(k)); k == "" || unicode.IsUpper(first) {
		panic(fmt.Errorf("state: %q is not a Key for a Versioned cell: write state.Versioned[...]{Key: \"customer\"}, "+
			"with an id that never changes and does not begin with an upper-case letter; "+
			"Beam replaces a missing one by the name of the field", string(k)))
	}
	return nil
}

type versionedCell[M migrate.Message] struct{ valueOf[M] }

// CoderType tells Beam the type that the cell holds. It panics if that type cannot be stored.
func (versionedCell[M]) CoderType() reflect.Type {
	t := reflect.TypeFor[M]()
	if t.Kind() == reflect.Interface {
		panic(fmt.Errorf("state: a Versioned cell of %v: name the message, as in state.Versioned[*supportpb.Customer]", t))
	}
	if stampOf[M]() == nil {
		panic(fmt.Errorf("state: a Versioned cell of %v, which has no field uint32 state_schema_version: add one", t))
	}
	ours, found := coder.LookupCustomCoder(reflect.TypeFor[*pb.MemoryBlob]()), coder.LookupCustomCoder(t)
	if found == nil || found.Enc.Fn.Name() != ours.Enc.Fn.Name() {
		panic(fmt.Errorf("state: a Versioned cell of %v, which has no coder of this library: call coders.Register((%v)(nil)) in an init function", t, t))
	}
	return t
}

// UnmarshalJSON is called when Beam makes the cell on a worker.
func (c *Versioned[M]) UnmarshalJSON(b []byte) error {
	var fields struct {
		Key Key `json:"Key"`
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		return fmt.Errorf("state: the Key of a Versioned cell: %w", err)
	}
	c.Key = fields.Key
	return c.opened.UnmarshalJSON(nil)
}

// Open reads the message and migrates it to the current version of schema. Fail the bundle if it
// returns an error.
func (c *Versioned[M]) Open(sp beamstate.Provider, schema *migrate.Schema) (*Handle[M], error) {
	return openMessage(&c.opened, sp, string(c.Key), schema, nil)
}

// At returns the cell for [TTL.Fired], which opens it with schema.
func (c *Versioned[M]) At(schema *migrate.Schema) Cell { return versionedAt[M]{c, schema} }

type versionedAt[M migrate.Message] struct {
	*Versioned[M]

	schema *migrate.Schema
}

func (c versionedAt[M]) open(sp beamstate.Provider, _ int64) (func() error, error) {
	return clearer(c.Open(sp, c.schema))
}

// Handle is a cell of one message during one call.
type Handle[M migrate.Message] struct {
	*stored[M]

	schema  *migrate.Schema
	extra   func(M) error
	message M
	present bool
	changed bool
}

// openMessage returns the handle of this call. extra may be nil. If it returns an error for a
// message of the right version, the message is refused.
func openMessage[M migrate.Message](o *opened[*Handle[M]], sp beamstate.Provider, id string, schema *migrate.Schema, extra func(M) error) (*Handle[M], error) {
	h, err := o.get(sp, func() (*Handle[M], error) {
		m, cell, err := read[M](sp, id, schema)
		if err != nil {
			return nil, err
		}
		if extra != nil && cell.found {
			if err := extra(m); err != nil {
				return nil, fmt.Errorf("state: cell %s: %w", id, err)
			}
		}
		return &Handle[M]{stored: cell, schema: schema, extra: extra, message: m, present: cell.found}, nil
	})
	if err == nil && h.schema != schema {
		return nil, fmt.Errorf("state: cell %s: opened with two schemas in one call: keep the schema in a package variable", id)
	}
	return h, err
}

// stampOf returns the field of the version stamp, or nil if the message has none.
func stampOf[M migrate.Message]() protoreflect.FieldDescriptor {
	var m M
	fd := m.ProtoReflect().Descriptor().Fields().ByName("state_schema_version")
	if fd == nil || fd.Kind() != protoreflect.Uint32Kind || fd.IsList() {
		return nil
	}
	return fd
}

// Get returns the message and whether the cell holds one. To change the message, change it and
// call Put.
func (h *Handle[M]) Get() (M, bool) { return h.message, h.present }

// Put replaces the message. The cell keeps m and stamps it with the current version. If m cannot
// be stored, Put returns an error and changes nothing: m is nil, its version is not the current
// one (ErrVersion), or it has text that is not UTF-8 (coders.ErrText).
func (h *Handle[M]) Put(m M) error {
	if err := h.check(m); err != nil {
		return fmt.Errorf("state: put %s: %w", h.value.Key, err)
	}
	h.stamp(m)
	h.message, h.present, h.changed = m, true, true
	return nil
}

func (h *Handle[M]) stamp(m M) {
	m.ProtoReflect().Set(stampOf[M](), protoreflect.ValueOfUint32(h.schema.Current()))
}

// ErrVersion says that a message was put with the stamp of another version than the current one.
// A message without a stamp counts as current.
var ErrVersion = errors.New("not of the current schema version")

// check returns why m cannot be stored.
func (h *Handle[M]) check(m M) error {
	if !m.ProtoReflect().IsValid() {
		return coders.ErrNil
	}
	if version, stamped := migrate.StoredVersion(m); stamped && version != h.schema.Current() {
		return fmt.Errorf("the message has schema version %d, and the current version is %d: %w", version, h.schema.Current(), ErrVersion)
	}
	if h.extra != nil {
		if err := h.extra(m); err != nil {
			return err
		}
	}
	return coders.CheckText(m)
}

// Clear removes the message.
func (h *Handle[M]) Clear() {
	var none M
	h.message, h.present, h.changed = none, false, true
}

// Commit writes the message if it was put or migrated, or clears the cell if the message was
// cleared. It also checks changes that were made to the message after Put. Fail the bundle if it
// returns an error.
func (h *Handle[M]) Commit() error {
	if h.present && (h.changed || h.migrated) {
		if err := h.check(h.message); err != nil {
			return fmt.Errorf("state: commit %s: %w", h.value.Key, err)
		}
		h.stamp(h.message)
	}
	if err := h.commit(h.changed, h.Get); err != nil {
		return err
	}
	h.changed = false
	return nil
}

// clearer returns the function that clears and commits the cell of h. It implements the open of a
// Cell.
func clearer[M migrate.Message](h *Handle[M], err error) (func() error, error) {
	if err != nil {
		return nil, err
	}
	return func() error {
		h.Clear()
		return h.Commit()
	}, nil
}
