package compat

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/beamagents/beamagents-go/internal/terminaltext"
)

const (
	// Format is the version of the JSON form that this package reads and writes.
	Format = 1
	// MaxBytes bounds the JSON form: 64 MiB.
	MaxBytes = 64 << 20
)

var (
	// ErrFormat marks a fingerprint of another format than [Format].
	ErrFormat = errors.New("another format")
	// ErrMalformed marks what is no fingerprint.
	ErrMalformed = errors.New("no fingerprint")
)

// Fingerprint is what a runner knows of a pipeline.
type Fingerprint struct {
	// Format is [Format].
	Format int `json:"format"`
	// Platform is what a runner knows of a job beyond its graph; nil where no runner has
	// said so.
	Platform *Platform `json:"platform,omitempty"`
	// Transforms are the steps that a runner executes, by name.
	Transforms []Transform `json:"transforms"`
}

// Platform is how a job is run. A field with its zero value is not known, and Check does
// not compare it.
type Platform struct {
	// Environment is the URN of the environment of the workers: beam:env:process:v1.
	Environment string `json:"environment,omitempty"`
	// Parallelism is the number of subtasks of each operator.
	Parallelism int `json:"parallelism,omitempty"`
	// MaxParallelism bounds Parallelism for the life of the state.
	MaxParallelism int `json:"max_parallelism,omitempty"`
	// Chaining is on or off: whether the runner joins operators to one task.
	Chaining string `json:"operator_chaining,omitempty"`
}

// Transform is one step.
type Transform struct {
	// Name is the unique name: those of the scopes around it and its own, joined by
	// slashes.
	Name string `json:"name"`
	// Kind is the URN, such as beam:transform:pardo:v1.
	Kind string `json:"kind"`
	// FlinkOperator is, of a ParDo that keeps something (see Stateful), what its operator
	// id on Flink is made of: the number of its input among the PCollections in
	// construction order. Of a splittable DoFn the runner splits the step, and what keeps
	// the restriction has an input of its own, whose number moves with this one.
	FlinkOperator string `json:"flink_operator,omitempty"`
	// FlinkTransform is, of a ParDo with timers or side inputs, its number among the
	// transforms in construction order, under which Flink's stock runner stores timers.
	FlinkTransform string `json:"flink_transform,omitempty"`
	// Fn is the user's code; nil for steps without any.
	Fn *Fn `json:"fn,omitempty"`
	// Inputs are the main inputs, in order.
	Inputs []Collection `json:"inputs,omitempty"`
	// SideInputs are the others, in order.
	SideInputs []Collection `json:"side_inputs,omitempty"`
	// Outputs are in order.
	Outputs []Collection `json:"outputs,omitempty"`
	// State are the cells, by id.
	State []State `json:"state,omitempty"`
	// Timers are the timer families, by id.
	Timers []Timer `json:"timers,omitempty"`
	// Accumulator is the coder of what a combine keeps.
	Accumulator *Coder `json:"accumulator,omitempty"`
	// Restriction is the coder of what a splittable DoFn keeps.
	Restriction *Coder `json:"restriction,omitempty"`
}

// Fn is a reference to code, which a worker resolves by name.
type Fn struct {
	// Name is the type key of a struct (package path and name), or the symbol of a
	// function.
	Name string `json:"name"`
	// Signature is that of a function; empty for a struct.
	Signature string `json:"signature,omitempty"`
}

// Collection is a PCollection at an input or output.
type Collection struct {
	// Tag is the name of the input or output: i0, i1 and so on in Go pipelines.
	Tag string `json:"tag"`
	// From is, of an input, the transform and the tag that it comes from: "Parse[i0]".
	From string `json:"from,omitempty"`
	// Access is the URN of how a side input is read.
	Access string `json:"access,omitempty"`
	// Coder is that of an element.
	Coder Coder `json:"coder"`
	// Windowing is the strategy as text, without what is the default.
	Windowing string `json:"windowing"`
}

// State is a cell.
type State struct {
	ID string `json:"id"`
	// Kind is value, bag, combining, map, set or ordered_list.
	Kind string `json:"kind"`
	// Key is the coder of the keys of a map or set.
	Key *Coder `json:"key,omitempty"`
	// Value is the coder of what is stored, of a combining cell that of the accumulator.
	// A set has none.
	Value *Coder `json:"value,omitempty"`
	// CombineFn is that of a combining cell.
	CombineFn *Fn `json:"combine_fn,omitempty"`
}

// Timer is a timer family.
type Timer struct {
	Family string `json:"family"`
	// TimeDomain is EVENT_TIME or PROCESSING_TIME.
	TimeDomain string `json:"time_domain"`
	// Coder is that of a timer: of its key and its window.
	Coder Coder `json:"coder"`
}

// Coder is a coder with all that is in it.
type Coder struct {
	URN string `json:"urn"`
	// Custom is what a coder in Go is made of.
	Custom *CustomCoder `json:"custom,omitempty"`
	// Fields are the names and types of the fields of a row.
	Fields []string `json:"fields,omitempty"`
	// Payload is base64 of what else the coder holds.
	Payload string `json:"payload,omitempty"`
	// Components are the coders inside, in order.
	Components []Coder `json:"components,omitempty"`
}

// CustomCoder is a coder whose functions are in Go.
type CustomCoder struct {
	// Name is the type as the coder names it, such as *beamagentspb.MemoryBlob.
	Name string `json:"name"`
	// Type is the type with its type key: package path and name.
	Type string `json:"type"`
	// Encode and Decode are the functions.
	Encode Fn `json:"encode"`
	Decode Fn `json:"decode"`
}

// groups reports whether t holds elements back to group them.
func (t *Transform) groups() bool { return t.Kind == groupByKey || t.Kind == combinePerKey }

// Stateful reports whether a runner keeps something of t between elements: cells,
// timers, elements to group, side inputs, restrictions.
func (t *Transform) Stateful() bool {
	switch t.Kind {
	case groupByKey, combinePerKey, "beam:transform:reshuffle:v1":
		return true
	}
	return len(t.State) > 0 || len(t.Timers) > 0 || len(t.SideInputs) > 0 || t.Restriction != nil
}

// String is a short form: KV<bytes, *beamagentspb.AgentEnvelope>.
func (c *Coder) String() string {
	parts := make([]string, len(c.Components))
	for i, component := range c.Components {
		parts[i] = component.String()
	}
	inside := strings.Join(parts, ", ")
	name := strings.TrimSuffix(strings.TrimPrefix(c.URN, "beam:coder:"), ":v1")
	switch {
	case c.Custom != nil:
		return c.Custom.Name
	case name == "length_prefix":
		return inside // every custom coder has one around it
	case name == "kv":
		name = "KV"
	case name == "row":
		return "row<" + strings.Join(c.Fields, ", ") + ">"
	}
	if inside != "" {
		name += "<" + inside + ">"
	}
	return name
}

// long is everything that is in the coder, for two that are short the same.
func (c *Coder) long() string { return marshal(c) }

// anyText writes what is not UTF-8, which a fingerprint that was not read may hold, as
// bytes in an array, which no other text is.
var anyText = json.WithMarshalers(json.MarshalToFunc(func(out *jsontext.Encoder, text string) error {
	if utf8.ValidString(text) {
		return errors.ErrUnsupported // so the default does it
	}
	return json.MarshalEncode(out, [][]byte{[]byte(text)})
}))

// marshal is a part of a fingerprint on one line, for comparison.
func marshal(part any) string {
	b, err := json.Marshal(part, json.Deterministic(true), anyText)
	if err != nil {
		return err.Error() // not reached: it is all texts and slices
	}
	return string(b)
}

// Write writes the JSON form: indented, sorted, with a line break at the end. Errors are
// those of w, and ErrMalformed for a fingerprint that Read would refuse.
func (f *Fingerprint) Write(w io.Writer) error {
	sorted := *f
	sorted.Transforms = slices.Clone(f.Transforms)
	slices.SortFunc(sorted.Transforms, func(a, b Transform) int { return cmp.Compare(a.Name, b.Name) })
	for i := range sorted.Transforms {
		t := &sorted.Transforms[i]
		t.State, t.Timers = slices.Clone(t.State), slices.Clone(t.Timers)
		slices.SortFunc(t.State, func(a, b State) int { return cmp.Compare(a.ID, b.ID) })
		slices.SortFunc(t.Timers, func(a, b Timer) int { return cmp.Compare(a.Family, b.Family) })
	}
	if err := sorted.Validate(); err != nil {
		return err
	}
	var text bytes.Buffer
	if err := json.MarshalWrite(&text, &sorted, json.Deterministic(true), jsontext.WithIndent("  ")); err != nil {
		return fmt.Errorf("compat: %w: %w", ErrMalformed, err)
	}
	text.WriteByte('\n')
	if _, err := w.Write(text.Bytes()); err != nil {
		return fmt.Errorf("compat: %w", err)
	}
	return nil
}

// Read reads the JSON form, at most MaxBytes of it. Errors are those of r, ErrFormat
// and ErrMalformed; the latter for a member that this version does not know, too.
func Read(r io.Reader) (Fingerprint, error) {
	text, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return Fingerprint{}, fmt.Errorf("compat: %w", err)
	}
	if len(text) > MaxBytes {
		return Fingerprint{}, fmt.Errorf("compat: %w: longer than %d bytes", ErrMalformed, MaxBytes)
	}
	var head struct {
		Format *int `json:"format"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return Fingerprint{}, fmt.Errorf("compat: %w: %w", ErrMalformed, err)
	}
	switch {
	case head.Format == nil:
		return Fingerprint{}, fmt.Errorf("compat: %w: it has no format; take one with --fingerprint", ErrMalformed)
	case *head.Format != Format:
		return Fingerprint{}, fmt.Errorf("compat: %w: this version reads %d and not %d; use one version of beamagents for both fingerprints and for the check",
			ErrFormat, Format, *head.Format)
	}
	var f Fingerprint
	if err := json.Unmarshal(text, &f, json.RejectUnknownMembers(true)); err != nil {
		if errors.Is(err, json.ErrUnknownName) {
			return Fingerprint{}, fmt.Errorf("compat: %w: %w; a newer version may have written it: use that for the check", ErrMalformed, err)
		}
		return Fingerprint{}, fmt.Errorf("compat: %w: %w", ErrMalformed, err)
	}
	if err := f.Validate(); err != nil {
		return Fingerprint{}, err
	}
	return f, nil
}

// Validate returns ErrFormat, or ErrMalformed where a name, a kind or the URN of a coder
// is empty or a name is there twice.
func (f *Fingerprint) Validate() error {
	if f.Format != Format {
		return fmt.Errorf("compat: %w: %d, not %d", ErrFormat, f.Format, Format)
	}
	if p := f.Platform; p != nil && (p.Parallelism < 0 || p.MaxParallelism < 0 || p.Chaining != "" && p.Chaining != on && p.Chaining != off) {
		return fmt.Errorf("compat: %w: its platform has a negative number, or an operator_chaining that is neither on nor off", ErrMalformed)
	}
	if len(f.Transforms) == 0 {
		return fmt.Errorf("compat: %w: it has no transforms", ErrMalformed)
	}
	if err := unique("transform", f.Transforms, func(t Transform) string { return t.Name }); err != nil {
		return err
	}
	for i := range f.Transforms {
		if err := f.Transforms[i].validate(); err != nil {
			return err
		}
	}
	return nil
}

// unique is about the names of all parts of one sort.
func unique[T any](what string, parts []T, name func(T) string) error {
	seen := make(map[string]bool, len(parts))
	for i, part := range parts {
		switch s := name(part); {
		case s == "":
			return fmt.Errorf("compat: %w: %s %d has no name", ErrMalformed, what, i)
		case seen[s]:
			return fmt.Errorf("compat: %w: %s %q is there twice", ErrMalformed, what, s)
		default:
			seen[s] = true
		}
	}
	return nil
}

func (t *Transform) validate() error {
	name := terminaltext.Line(t.Name)
	if err := errors.Join(
		unique("input of "+name, t.Inputs, tag),
		unique("side input of "+name, t.SideInputs, tag),
		unique("output of "+name, t.Outputs, tag),
		unique("state of "+name, t.State, func(s State) string { return s.ID }),
		unique("timer family of "+name, t.Timers, func(t Timer) string { return t.Family }),
	); err != nil {
		return err
	}
	coders := []*Coder{t.Accumulator, t.Restriction}
	kinds := []string{t.Kind}
	for _, all := range [][]Collection{t.Inputs, t.SideInputs, t.Outputs} {
		for i := range all {
			coders = append(coders, &all[i].Coder)
		}
	}
	for i := range t.State {
		kinds = append(kinds, t.State[i].Kind)
		coders = append(coders, t.State[i].Key, t.State[i].Value)
	}
	for i := range t.Timers {
		coders = append(coders, &t.Timers[i].Coder)
	}
	if slices.Contains(kinds, "") {
		return fmt.Errorf("compat: %w: %s has no kind, or a cell of it has none", ErrMalformed, name)
	}
	if slices.ContainsFunc(coders, (*Coder).unnamed) {
		return fmt.Errorf("compat: %w: a coder of %s has no URN", ErrMalformed, name)
	}
	return nil
}

// unnamed reports whether c, or a coder in it, has no URN. None has.
func (c *Coder) unnamed() bool {
	return c != nil && (c.URN == "" || slices.ContainsFunc(c.Components, func(in Coder) bool { return in.unnamed() }))
}
