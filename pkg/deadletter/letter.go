package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	strictjson "github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

const (
	// MaxErrorBytes is the bound of an error text in a record, in bytes.
	MaxErrorBytes = 4096
	// MaxEventTimeMS is the last event time of an envelope: the last ms of the year 9999.
	// The first is 0.
	MaxEventTimeMS = 253402300799999
)

var (
	// ErrForeign is the error of [Read] for a record that is not written by the rules of
	// this package: another program's.
	ErrForeign = errors.New("not a dead letter of the closed list")
	// ErrUnwrap is the error of [Unwrap] for an envelope that holds no record.
	ErrUnwrap = errors.New("envelope holds no dead letter")
)

// InputKind is what the input of a dead letter is, and so what to do with it.
type InputKind string

// The kinds of input.
const (
	// NoInput: nothing came in, a timer fired. A Letter without a kind has this one.
	NoInput InputKind = "none"
	// BytesInput: bytes as they were received.
	BytesInput InputKind = "bytes"
	// EnvelopeInput: a deterministic AgentEnvelope.
	EnvelopeInput InputKind = "envelope"
	// EventInput: an event of the agent event protocol, as it was received.
	EventInput InputKind = "event"
	// IntentInput: a deterministic ToolIntent.
	IntentInput InputKind = "intent"
)

// Letter is a dead letter. It is written with [Letter.Record] and read with [Read].
type Letter struct {
	// Reason and Code say why. The code must be one of the reason's.
	Reason Reason
	Code   Code
	// Error says more, for people. Record makes it valid UTF-8, cuts it to its first
	// line and to MaxErrorBytes, and replaces memory addresses.
	Error string
	// EntityKey is the key of the element, else of the envelope or intent, else empty.
	EntityKey []byte
	// EventTimeMS is the event time of what failed, in ms of the Unix epoch.
	EventTimeMS int64
	// InputKind and Input are what failed, whole. To try again, send an input of kind
	// bytes or envelope to the topic it came from.
	InputKind InputKind
	Input     []byte
	// Position is where in an activation it failed.
	Position Position
}

// Position is where in an activation something failed. The zero value, and each nil
// or empty member, is "not known" and left out of the record.
type Position struct {
	// Seq is the number of the activation within its key.
	Seq *int64 `json:"seq,omitempty"`
	// Step is the step cursor.
	Step *int64 `json:"step,omitempty"`
	// LastEvent is the last trace event that was staged.
	LastEvent string `json:"last_event,omitempty"`
	// Intents is how many intents were staged.
	Intents *int64 `json:"intents,omitempty"`
	// ModelCalls is how many calls reached a model.
	ModelCalls *int64 `json:"model_calls,omitempty"`
	// IntentID is the intent that is concerned.
	IntentID string `json:"intent_id,omitempty"`
	// DeadlineMS is the deadline of the suspension, in ms of the Unix epoch.
	DeadlineMS *int64 `json:"deadline_ms,omitempty"`
	// Arrival is the number under which an event was deferred.
	Arrival *int64 `json:"arrival,omitempty"`
	// Redriven is how often this record came back as an input and failed again.
	Redriven int64 `json:"redriven,omitempty"`
	// RefusedReason and RefusedCode are why it failed the last time it came back. Both
	// are empty, or the code is one of the reason's.
	RefusedReason Reason `json:"refused_reason,omitempty"`
	RefusedCode   Code   `json:"refused_code,omitempty"`
}

// validate returns what is wrong with the members that say how a record came back.
func (p Position) validate() error {
	if p.Redriven < 0 {
		return fmt.Errorf("position.redriven is %d; a count is not negative", p.Redriven)
	}
	if (p.RefusedReason != "" || p.RefusedCode != "") && !slices.Contains(codes[p.RefusedReason], p.RefusedCode) {
		return fmt.Errorf("position.refused_code %q is not a code of position.refused_reason %q", p.RefusedCode, p.RefusedReason)
	}
	return nil
}

// detail is the JSON in a record. Its canonical form is what is written.
type detail struct {
	Code      Code      `json:"code"`
	Error     string    `json:"error,omitempty"`
	Input     *string   `json:"input,omitempty"` // base64; a pointer, as an empty input is one, too
	InputKind InputKind `json:"input_kind"`
	Position  *Position `json:"position,omitempty"`
}

// Record returns the letter as a wire message.
//
// When the input is an envelope around a dead letter with the envelope's entity key,
// Record does not wrap that one again. It returns the record in the envelope: its
// Position.Redriven is one higher, and its Position.RefusedReason and RefusedCode are
// this letter's Reason and Code. Nothing else of this letter is kept. When the keys
// differ, the record is an ordinary one about the envelope. Bytes that were refused as
// [Oversize] or [Unparsable] are not looked into.
//
// Record fails only on a reason, code or kind of input that is not in the list, an input
// without a kind, or a negative count.
func (l Letter) Record() (*pb.ActivationErrorRecord, error) {
	if !slices.Contains(codes[l.Reason], l.Code) {
		return nil, fmt.Errorf("deadletter: code %q is not one of reason %q", l.Code, l.Reason)
	}
	if l.InputKind == "" {
		l.InputKind = NoInput
	}
	d := detail{Code: l.Code, Error: cleanText(l.Error), InputKind: l.InputKind}
	switch l.InputKind {
	case NoInput:
		if l.Input != nil {
			return nil, errors.New("deadletter: an input needs its InputKind")
		}
	case BytesInput, EnvelopeInput, EventInput, IntentInput:
	default:
		return nil, fmt.Errorf("deadletter: %q is not a kind of input", l.InputKind)
	}
	if err := l.Position.validate(); err != nil {
		return nil, fmt.Errorf("deadletter: %w", err)
	}
	if rec := l.redriven(); rec != nil {
		return rec, nil
	}
	if l.Position != (Position{}) {
		p := l.Position
		p.LastEvent, p.IntentID = cleanText(p.LastEvent), cleanText(p.IntentID)
		d.Position = &p
	}
	text, err := d.canonical()
	if err != nil {
		return nil, fmt.Errorf("deadletter: detail: %w", err)
	}
	if l.InputKind != NoInput {
		text = withInput(text, l.Input)
	}
	return &pb.ActivationErrorRecord{
		EntityKey:   l.EntityKey,
		Reason:      string(l.Reason),
		Detail:      text,
		EventTimeMs: l.EventTimeMS,
	}, nil
}

// Read returns a record as a Letter. A record that was written by other rules than
// this package's gives [ErrForeign]; members that a newer version added are ignored.
func Read(rec *pb.ActivationErrorRecord) (Letter, error) {
	l := Letter{
		Reason:      Reason(rec.GetReason()),
		EntityKey:   rec.GetEntityKey(),
		EventTimeMS: rec.GetEventTimeMs(),
	}
	text := []byte(rec.GetDetail())
	canonical, err := canonjson.Canonicalize(nil, text)
	if err != nil || !bytes.Equal(canonical, text) {
		return Letter{}, fmt.Errorf("deadletter: %w: detail is not canonical JSON", ErrForeign)
	}
	var d detail
	// Names in other letters are other names, as for every reader of canonical JSON.
	if err := strictjson.Unmarshal(text, &d); err != nil {
		return Letter{}, fmt.Errorf("deadletter: %w: detail has another shape", ErrForeign)
	}
	if !slices.Contains(codes[l.Reason], d.Code) {
		return Letter{}, fmt.Errorf("deadletter: %w: reason %q with code %q", ErrForeign, l.Reason, d.Code)
	}
	l.Code, l.Error, l.InputKind = d.Code, d.Error, d.InputKind
	switch l.InputKind {
	case "":
		l.InputKind = NoInput
		fallthrough
	case NoInput:
		if d.Input != nil {
			return Letter{}, fmt.Errorf("deadletter: %w: an input of no kind", ErrForeign)
		}
	case BytesInput, EnvelopeInput, EventInput, IntentInput:
		if d.Input == nil {
			return Letter{}, fmt.Errorf("deadletter: %w: no input of kind %q", ErrForeign, l.InputKind)
		}
		input, err := base64.StdEncoding.Strict().DecodeString(*d.Input)
		if err != nil || strings.ContainsAny(*d.Input, "\r\n") { // which the decoder skips
			return Letter{}, fmt.Errorf("deadletter: %w: the input is not base64", ErrForeign)
		}
		l.Input = input
	default:
		return Letter{}, fmt.Errorf("deadletter: %w: input of kind %q", ErrForeign, l.InputKind)
	}
	if d.Position != nil {
		l.Position = *d.Position
	}
	if err := l.Position.validate(); err != nil {
		return Letter{}, fmt.Errorf("deadletter: %w: %w", ErrForeign, err)
	}
	return l, nil
}

// Wrap puts a record into the envelope in which it travels on an errors topic: same
// key, same event time, the record's deterministic bytes as external event. A time
// outside 0 to MaxEventTimeMS becomes the nearest of these in the envelope, which would
// be no valid input otherwise, and stays in the record. It fails on text that is not
// UTF-8.
func Wrap(rec *pb.ActivationErrorRecord) (*pb.AgentEnvelope, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(rec)
	if err != nil {
		return nil, fmt.Errorf("deadletter: wrap: %w", err)
	}
	return &pb.AgentEnvelope{
		EntityKey:   rec.GetEntityKey(),
		EventTimeMs: min(max(rec.GetEventTimeMs(), 0), MaxEventTimeMS),
		Payload:     &pb.AgentEnvelope_ExternalEvent{ExternalEvent: b},
	}, nil
}

// Unwrap returns the record that an envelope holds, whoever wrote it, or [ErrUnwrap].
func Unwrap(env *pb.AgentEnvelope) (*pb.ActivationErrorRecord, error) {
	event, ok := env.GetPayload().(*pb.AgentEnvelope_ExternalEvent)
	if !ok || event == nil {
		return nil, fmt.Errorf("deadletter: %w: it has no external_event", ErrUnwrap)
	}
	rec := new(pb.ActivationErrorRecord)
	if err := proto.Unmarshal(event.ExternalEvent, rec); err != nil {
		return nil, fmt.Errorf("deadletter: %w: external_event, %s", ErrUnwrap, Explain(event.ExternalEvent, rec))
	}
	if rec.GetReason() == "" {
		return nil, fmt.Errorf("deadletter: %w: external_event has no reason", ErrUnwrap)
	}
	return rec, nil
}

// redriven returns the record that this letter is about if its input is an envelope
// around one of our dead letters with the same entity key; nil for any other input.
// Whoever can write input can write such an envelope, so the record says why it was
// refused now.
func (l Letter) redriven() *pb.ActivationErrorRecord {
	switch {
	case l.InputKind == EnvelopeInput:
	case l.InputKind == BytesInput && l.Code != Oversize && l.Code != Unparsable:
	default:
		return nil
	}
	env := new(pb.AgentEnvelope)
	if proto.Unmarshal(l.Input, env) != nil {
		return nil
	}
	rec, err := Unwrap(env)
	if err != nil || len(rec.ProtoReflect().GetUnknown()) > 0 || !bytes.Equal(rec.GetEntityKey(), env.GetEntityKey()) {
		return nil
	}
	first, err := Read(rec)
	if err != nil {
		return nil
	}
	// Edited member by member, so that those of a newer version survive.
	members, err := membersOf([]byte(rec.GetDetail()))
	if err != nil {
		return nil
	}
	position := map[string]any{}
	if text, some := members["position"].(json.RawMessage); some {
		if position, err = membersOf(text); err != nil {
			return nil
		}
	}
	position["redriven"] = first.Position.Redriven + 1
	if first.Position.Redriven == math.MaxInt64 {
		position["redriven"] = first.Position.Redriven
	}
	position["refused_reason"], position["refused_code"] = string(l.Reason), string(l.Code)
	members["position"] = position
	text, err := canonjson.Marshal(members)
	if err != nil {
		return nil
	}
	rec.Detail = string(text)
	return rec
}

// membersOf returns the members of a JSON object as json.RawMessages. A null has none.
func membersOf(text []byte) (map[string]any, error) {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	members := map[string]any{}
	for name, value := range raw {
		members[name] = value
	}
	return members, nil
}

// canonical returns the detail as canonical JSON.
func (d detail) canonical() (string, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	b, err = canonjson.Canonicalize(nil, b)
	return string(b), err
}

// withInput adds the input to a canonical detail. It is written straight into the text:
// an input may be large, and its base64 is canonical already.
func withInput(detail string, input []byte) string {
	const next = `"input_kind":` // a quote in a string is escaped, so this is the member
	before, after, _ := strings.Cut(detail, next)
	var b strings.Builder
	b.Grow(len(detail) + len(`"input":"",`) + base64.StdEncoding.EncodedLen(len(input)))
	b.WriteString(before)
	b.WriteString(`"input":"`)
	w := base64.NewEncoder(base64.StdEncoding, &b)
	_, _ = w.Write(input) // a Builder does not fail
	_ = w.Close()
	b.WriteString(`",`)
	b.WriteString(next)
	b.WriteString(after)
	return b.String()
}

var address = regexp.MustCompile(`0x[0-9a-f]{6,16}`)

// cleanText makes an error's text fit for a record: the same on every retry, valid
// UTF-8, bounded.
func cleanText(s string) string {
	s = strings.TrimLeft(s, "\r\n")
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	// An address of 18 bytes becomes 3: nothing behind this can be part of the result,
	// and the search for addresses is slow.
	const enough = 6*MaxErrorBytes + 18 + utf8.UTFMax
	s = s[:min(len(s), enough)]
	// protobuf-go writes one or the other, by the hash of the binary.
	s = strings.ReplaceAll(s, "\u00a0", " ")
	s = address.ReplaceAllLiteralString(s, "0x?")
	if len(s) <= MaxErrorBytes {
		return s
	}
	end := MaxErrorBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
