package events

import "reflect"

// RunRecord is one event of a run, in the form in which a store of runs keeps it.
type RunRecord struct {
	// Sequence counts all events of the run, from 0.
	Sequence uint64
	// TimestampMs is a Unix time in ms. Within a run it never decreases.
	TimestampMs uint64
	Event       Event
}

// runRecord is a RunRecord whose event is not decoded yet.
type runRecord struct {
	Sequence    uint64 `wire:"sequence"`
	TimestampMs uint64 `wire:"timestamp_ms"`
	Event       Value  `wire:"event"`
}

// runMetadata is the metadata of an event of a run.
type runMetadata struct {
	RunID       string `wire:"run_id"`
	SessionID   string `wire:"session_id"`
	Sequence    uint64 `wire:"sequence"`
	TimestampMs uint64 `wire:"timestamp_ms"`
}

var (
	runRecordShape   = unions{}.object(reflect.TypeFor[runRecord](), false)
	runMetadataShape = unions{}.object(reflect.TypeFor[runMetadata](), false)
)

// ToEnvelope returns the envelope of the event with the metadata run_id, session_id,
// sequence and timestamp_ms. The ids may be empty. Errors are those of the function
// [ToEnvelope]; for an id that is not UTF-8 the error wraps [ErrSerialize].
func (r RunRecord) ToEnvelope(runID, sessionID string) (Envelope, error) {
	env, err := ToEnvelope(r.Event)
	if err != nil {
		return Envelope{}, err
	}
	e := encoder{dst: make([]byte, 0, 128)}
	e.object(reflect.ValueOf(runMetadata{runID, sessionID, r.Sequence, r.TimestampMs}), runMetadataShape, false)
	if e.err != nil {
		return Envelope{}, e.err
	}
	return env.WithMetadata(Value{string(e.dst), 1, true}), nil
}

// FromRunEnvelope returns what [RunRecord.ToEnvelope] was called with. It ignores other
// members of the metadata. Errors are of type *[DecodeError].
func FromRunEnvelope(env Envelope) (r RunRecord, runID, sessionID string, err error) {
	if env.Metadata.IsNull() {
		return RunRecord{}, "", "", missingField("metadata")
	}
	var m runMetadata
	d := decoder{cursor{s: env.Metadata.JSON()}}
	if err := d.object(reflect.ValueOf(&m).Elem(), runMetadataShape); err != nil {
		return RunRecord{}, "", "", err
	}
	event, err := FromEnvelope(env)
	if err != nil {
		return RunRecord{}, "", "", err
	}
	return RunRecord{m.Sequence, m.TimestampMs, event}, m.RunID, m.SessionID, nil
}

// AppendJSON appends the record to dst: an object with the members sequence, timestamp_ms
// and event. The event is in the form of [AppendEvent]. Errors are those of the function
// [ToEnvelope].
func (r RunRecord) AppendJSON(dst []byte) ([]byte, error) {
	e := encoder{dst: dst, direct: true}
	e.enter('{')
	e.name(false, "sequence")
	e.uint(r.Sequence)
	e.name(true, "timestamp_ms")
	e.uint(r.TimestampMs)
	e.name(true, "event")
	if _, err := e.event(r.Event, true); err != nil {
		return dst, err
	}
	e.leave('}')
	return e.dst, nil
}

// MarshalJSON is [RunRecord.AppendJSON]; see [Envelope.MarshalJSON].
func (r RunRecord) MarshalJSON() ([]byte, error) { return r.AppendJSON(nil) }

// DecodeRunRecord reads a record. Its members may be in any order and occur at most once;
// unknown members are ignored. Errors are of type *[DecodeError].
func DecodeRunRecord(data []byte) (RunRecord, error) {
	v, err := parse(string(data), 0)
	if err != nil {
		return RunRecord{}, err
	}
	var w runRecord
	if err := (&decoder{cursor{s: v.text}}).object(reflect.ValueOf(&w).Elem(), runRecordShape); err != nil {
		return RunRecord{}, err
	}
	event, err := (&decoder{cursor{s: w.Event.text}}).tagged()
	if err != nil {
		return RunRecord{}, err
	}
	return RunRecord{w.Sequence, w.TimestampMs, event}, nil
}

// UnmarshalJSON is [DecodeRunRecord].
func (r *RunRecord) UnmarshalJSON(data []byte) (err error) {
	*r, err = DecodeRunRecord(data)
	return err
}
