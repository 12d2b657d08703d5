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
	// MaxErrorBytes bounds the error text in a record, in bytes.
	MaxErrorBytes = 4096
	// MaxEventTimeMS is the last valid event time of an envelope: the last ms of the year 9999.
	// The first one is 0.
	MaxEventTimeMS = 253402300799999
)

var (
	// ErrForeign is the error of [Read] for a record that does not follow the rules of this
	// package, so another program wrote it.
	ErrForeign = errors.New("not a dead letter of the closed list")
	// ErrUnwrap is the error of [Unwrap] for an envelope that holds no record.
	ErrUnwrap = errors.New("envelope holds no dead letter")
)

// InputKind says what the input of a dead letter is, and so what can be done with it.
type InputKind string

// The kinds of input.
const (
	// NoInput: there was no input, because a timer fired. An empty InputKind means the same.
	NoInput InputKind = "none"
	// BytesInput: bytes as received.
	BytesInput InputKind = "bytes"
	// EnvelopeInput: the deterministic encoding of an AgentEnvelope.
	EnvelopeInput InputKind = "envelope"
	// EventInput: an event of the agent event protocol, as received.
	EventInput InputKind = "event"
	// IntentInput: the deterministic encoding of a ToolIntent.
	IntentInput InputKind = "intent"
)

// Letter is a dead letter. [Letter.Record] writes it and [Read] reads it.
type Letter struct {
	// Reason and Code say why. The code must be one of the codes of the reason.
	Reason Reason
	Code   Code
	// Error is a text for people. Record makes it valid UTF-8, cuts it to its first line and to
	// MaxErrorBytes, and replaces memory addresses.
	Error string
	// EntityKey is the key of the element, or of the envelope or intent, or empty.
	EntityKey []byte
	// EventTimeMS is the event time of the input, in ms since the Unix epoch.
	EventTimeMS int64
	// InputKind and Input are the input, whole. To try again, send an input of kind bytes or
	// envelope to the topic from which it came.
	InputKind InputKind
	Input     []byte
	// Position says where in an activation it failed.
	Position Position
}

// Position says where in an activation something failed. A member that is nil or empty is unknown
// and left out of the record.
type Position struct {
	// Seq is the number of the activation within its key.
	Seq *int64 `json:"seq,omitempty"`
	// Step is the step at which the activation was.
	Step *int64 `json:"step,omitempty"`
	// LastEvent is the last trace event that was staged.
	LastEvent string `json:"last_event,omitempty"`
	// Intents is how many intents were staged.
	Intents *int64 `json:"intents,omitempty"`
	// ModelCalls is how many calls reached a model.
	ModelCalls *int64 `json:"model_calls,omitempty"`
	// IntentID is the id of the intent in question.
	IntentID string `json:"intent_id,omitempty"`
	// DeadlineMS is the deadline of the suspension, in ms since the Unix epoch.
	DeadlineMS *int64 `json:"deadline_ms,omitempty"`
	// Arrival is the number under which an event was deferred.
	Arrival *int64 `json:"arrival,omitempty"`
	// Redriven is how often this record came back as an input and failed again.
	Redriven int64 `json:"redriven,omitempty"`
	// RefusedReason and RefusedCode say why the record failed when it last came back. Both are
	// empty, or the code is one of the codes of the reason.
	RefusedReason Reason `json:"refused_reason,omitempty"`
	RefusedCode   Code   `json:"refused_code,omitempty"`
}

// validate checks the members that say how a record came back.
func (p Position) validate() error {
	if p.Redriven < 0 {
		return fmt.Errorf("position.redriven is %d: use 0 or more", p.Redriven)
	}
	if (p.RefusedReason != "" || p.RefusedCode != "") && !slices.Contains(codes[p.RefusedReason], p.RefusedCode) {
		return fmt.Errorf("position.refused_code %q is not a code of position.refused_reason %q", p.RefusedCode, p.RefusedReason)
	}
	return nil
}

// detail is the JSON in a record. It is written in canonical form.
type detail struct {
	Code      Code      `json:"code"`
	Error     string    `json:"error,omitempty"`
	Input     *string   `json:"input,omitempty"` // base64; nil means no input, which differs from an empty input
	InputKind InputKind `json:"input_kind"`
	Position  *Position `json:"position,omitempty"`
}

// Record returns the letter as a wire message.
//
// If the input is an envelope that holds a dead letter with the same entity key as the envelope,
// Record does not wrap that dead letter again. It returns the record in the envelope, with
// Position.Redriven one higher and with this letter's Reason and Code as Position.RefusedReason
// and RefusedCode. Everything else in this letter is dropped. If the keys differ, Record returns
// an ordinary record about the envelope. Record does not look into bytes that were refused as
// [Oversize] or [Unparsable].
//
// Record returns an error for a reason, code or kind of input that is not in the list, an input
// without a kind, and a negative count.
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
			return nil, errors.New("deadletter: a letter with an Input needs an InputKind")
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

// Read returns a record as a Letter. It returns [ErrForeign] for a record that does not follow
// the rules of this package. It ignores members that a newer version added.
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
	// Member names are case-sensitive, as for every reader of canonical JSON.
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
		if err != nil || strings.ContainsAny(*d.Input, "\r\n") { // the decoder ignores line ends
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

// Wrap puts a record into the envelope for an errors topic. The envelope has the key and the
// event time of the record, and the deterministic encoding of the record as external event. An
// event time outside 0 to MaxEventTimeMS would make the envelope invalid, so the envelope gets
// the nearest valid time, and the record keeps its own. Wrap returns an error for text that is
// not UTF-8.
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

// Unwrap returns the record in an envelope, whoever wrote it, or [ErrUnwrap].
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

// redriven returns the record for a letter whose input is an envelope with one of our dead
// letters and the same entity key. It returns nil for any other input. Whoever can write inputs
// can write such an envelope, so the record also says why it was refused now.
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
	// The members are edited one by one, to keep those of a newer version.
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

// membersOf returns the members of a JSON object as json.RawMessages. It returns none for null.
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

// withInput adds the input to a canonical detail. It writes into the text, because an input may
// be large, and because base64 is already canonical.
func withInput(detail string, input []byte) string {
	const next = `"input_kind":` // quotes within strings are escaped, so this can only be the member
	before, after, _ := strings.Cut(detail, next)
	var b strings.Builder
	b.Grow(len(detail) + len(`"input":"",`) + base64.StdEncoding.EncodedLen(len(input)))
	b.WriteString(before)
	b.WriteString(`"input":"`)
	w := base64.NewEncoder(base64.StdEncoding, &b)
	_, _ = w.Write(input) // writing to a Builder does not fail
	_ = w.Close()
	b.WriteString(`",`)
	b.WriteString(next)
	b.WriteString(after)
	return b.String()
}

var address = regexp.MustCompile(`0x[0-9a-f]{6,16}`)

// cleanText makes an error text fit for a record: bounded, valid UTF-8, and the same on every
// retry.
func cleanText(s string) string {
	s = strings.TrimLeft(s, "\r\n")
	if i := strings.IndexAny(s, "\r\n"); i >= 0 {
		s = s[:i]
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	// Searching for addresses is slow, and an address of 18 bytes becomes 3. So no text beyond
	// this length can be in the result.
	const enough = 6*MaxErrorBytes + 18 + utf8.UTFMax
	s = s[:min(len(s), enough)]
	// protobuf-go writes one or the other, depending on the hash of the binary.
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
