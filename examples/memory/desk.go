package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	supportpb "github.com/beamagents/beamagents-go/examples/memory/proto/support/v1"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/state"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*deskFn]())
	register.Emitter2[beam.EventTime, string]()
	register.Emitter1[*pb.ActivationErrorRecord]()
}

const (
	customerCell = "customer"          // the id of the cell, which running jobs know
	idle         = 30 * 24 * time.Hour // time after which a customer is forgotten
)

// deskFn handles the events of each customer. When a customer has been idle for long, it emits a
// summary and clears the state of the customer.
type deskFn struct {
	Memory   state.Memory                         // topics; the least recently used are evicted first
	Customer state.Versioned[*supportpb.Customer] // who the customer is, and some counts
	TTL      state.TTL                            // when to clear both
}

func newDeskFn() *deskFn {
	return &deskFn{Customer: state.Versioned[*supportpb.Customer]{Key: customerCell}}
}

// ProcessElement handles one event. A problem with the event makes a dead letter. A problem with
// the state fails the bundle, which leaves the state unchanged.
func (f *deskFn) ProcessElement(
	w beam.Window, sp beamstate.Provider, tp timers.Provider, _ []byte, env *pb.AgentEnvelope,
	_ func(beam.EventTime, string), errs func(*pb.ActivationErrorRecord),
) error {
	e, err := decodeEvent(env.GetExternalEvent())
	if err != nil {
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, err, errs)
	}
	if e.Stored != nil {
		return leave(sp, env, e.Stored, errs)
	}
	now := env.GetEventTimeMs() // never a clock, because a retry must do the same
	topics, err := f.Memory.Open(sp, now)
	if err != nil {
		return err
	}
	if err := topics.Put(e.Topic, e.value()); errors.Is(err, memory.ErrOverflow) {
		return deadLetter(env, deadletter.ActivationError, deadletter.MemoryOverflow, err, errs)
	} else if err != nil {
		return deadLetter(env, deadletter.FunctionError, deadletter.Failed, err, errs)
	}
	stored, err := f.Customer.Open(sp, customers) // migrated if it has an older version
	if err != nil {
		return err
	}
	c, known := stored.Get()
	if !known {
		c = new(supportpb.Customer)
	}
	if e.From != "" {
		c.Name, c.Address = splitContact(e.From)
	}
	evicted, evictedBytes := topics.Evicted()
	c.Events++
	c.Evicted += int64(evicted)
	c.EvictedBytes += evictedBytes
	if from, ok := stored.Migrated(); ok {
		c.MigratedFrom = from
	}
	if err := stored.Put(c); err != nil {
		return err
	}
	return errors.Join(f.TTL.Touch(sp, tp, w, now, idle), stored.Commit(), topics.Commit())
}

// OnTimer handles the end of a customer's idle time. It must have the emitters of ProcessElement.
func (f *deskFn) OnTimer(
	et beam.EventTime, sp beamstate.Provider, tp timers.Provider, key []byte, timer timers.Context,
	emit func(beam.EventTime, string), _ func(*pb.ActivationErrorRecord),
) {
	if err := f.forget(et, sp, tp, key, timer, emit); err != nil {
		panic(err) // the only way in which OnTimer can fail its bundle
	}
}

func (f *deskFn) forget(
	et beam.EventTime, sp beamstate.Provider, tp timers.Provider, key []byte, timer timers.Context, emit func(beam.EventTime, string),
) error {
	stored, err := f.Customer.Open(sp, customers)
	if err != nil {
		return err
	}
	c, _ := stored.Get()
	topics, err := f.Memory.Open(sp, 0) // the entries are only read, so the time does not matter
	if err != nil {
		return err
	}
	line, err := json.Marshal(summary{
		Customer: string(key), Name: c.GetName(), Address: c.GetAddress(), Events: c.GetEvents(),
		MigratedFrom: c.GetMigratedFrom(), Evicted: c.GetEvicted(), EvictedBytes: c.GetEvictedBytes(),
		Topics: slices.Collect(topics.Keys()), TopicBytes: topics.ValueBytes(),
	})
	if err != nil {
		return err
	}
	since, gone, err := f.TTL.Fired(et, sp, tp, timer, &f.Memory, f.Customer.At(customers))
	if err != nil || !gone {
		return err
	}
	emit(mtime.FromMilliseconds(since), string(line))
	return nil
}

// summary is a line of the output. Topics are in order of use, most recent last.
type summary struct {
	Customer     string   `json:"customer"`
	Name         string   `json:"name"`
	Address      string   `json:"address"`
	Events       int64    `json:"events"`
	MigratedFrom uint32   `json:"migrated_from"` // the old version, or 0
	Evicted      int64    `json:"evicted"`
	EvictedBytes int64    `json:"evicted_bytes"`
	Topics       []string `json:"topics"`
	TopicBytes   int64    `json:"topic_bytes"`
}

// event is what a customer did. It is the event of an envelope.
type event struct {
	// From is the writer, "Name <address>". Some events have it.
	From string `json:"from"`
	// Topic and Note, and an attachment of AttachmentKB KiB, are what is remembered.
	Topic        string `json:"topic"`
	Note         string `json:"note"`
	AttachmentKB int    `json:"attachment_kb"`
	// Stored makes the event stand for state that a previous build has stored: see previous.go.
	Stored []byte `json:"stored"`
}

const maxAttachmentKB = 10 << 10

func decodeEvent(b []byte) (e event, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return event{}, err
	}
	if e.AttachmentKB < 0 || e.AttachmentKB > maxAttachmentKB {
		return event{}, fmt.Errorf("attachment_kb is %d, the range is 0 to %d", e.AttachmentKB, maxAttachmentKB)
	}
	return e, nil
}

// value returns the note and the attachment, for which zeros stand.
func (e event) value() []byte { return append([]byte(e.Note), make([]byte, e.AttachmentKB<<10)...) }

// deadLetter emits a dead letter for the event. The event has no other effect.
func deadLetter(env *pb.AgentEnvelope, reason deadletter.Reason, code deadletter.Code, cause error, errs func(*pb.ActivationErrorRecord)) error {
	input, err := proto.MarshalOptions{Deterministic: true}.Marshal(env)
	if err != nil {
		return err
	}
	rec, err := deadletter.Letter{
		Reason: reason, Code: code, Error: cause.Error(), EntityKey: env.GetEntityKey(),
		EventTimeMS: env.GetEventTimeMs(), InputKind: deadletter.EnvelopeInput, Input: input,
	}.Record()
	if err != nil {
		return err
	}
	errs(rec)
	return nil
}
