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
	// MaxBytes bounds the JSON form, 64 MiB.
	MaxBytes = 64 << 20
)

var (
	// ErrFormat is the error for a fingerprint of another format than [Format].
	ErrFormat = errors.New("another format")
	// ErrMalformed is the error for data that is not a valid fingerprint.
	ErrMalformed = errors.New("no fingerprint")
)

// Fingerprint holds what a runner knows of a pipeline.
type Fingerprint struct {
	// Format is [Format].
	Format int `json:"format"`
	// Platform is what a runner knows of a job beyond its graph. It is nil if no runner has
	// provided it.
	Platform *Platform `json:"platform,omitempty"`
	// Transforms are the steps that a runner executes, sorted by name.
	Transforms []Transform `json:"transforms"`
}

// Platform says how a job is run. A zero field is unknown, and Check does not compare it.
type Platform struct {
	// Environment is the URN of the workers' environment, such as beam:env:process:v1.
	Environment string `json:"environment,omitempty"`
	// Parallelism is the number of subtasks of each operator.
	Parallelism int `json:"parallelism,omitempty"`
	// MaxParallelism bounds Parallelism. It cannot change while the state lives.
	MaxParallelism int `json:"max_parallelism,omitempty"`
	// Chaining is on or off. It says whether the runner joins operators to one task.
	Chaining string `json:"operator_chaining,omitempty"`
}

// Transform is a step.
type Transform struct {
	// Name is the unique name: the names of the scopes around the step and its own, joined by
	// slashes.
	Name string `json:"name"`
	// Kind is the URN, such as beam:transform:pardo:v1.
	Kind string `json:"kind"`
	// FlinkOperator is set for a ParDo that keeps something (see Stateful). Flink's stock runner
	// makes the operator id from it: it is the number of the input among the PCollections in
	// construction order. The runner splits the step of a splittable DoFn; the part that keeps
	// the restriction has its own input, whose number moves with this one.
	FlinkOperator string `json:"flink_operator,omitempty"`
	// FlinkTransform is set for a ParDo with timers or side inputs. It is the number of the
	// transform in construction order, under which Flink's stock runner stores timers.
	FlinkTransform string `json:"flink_transform,omitempty"`
	// Fn is the user's code, or nil for a step without code.
	Fn *Fn `json:"fn,omitempty"`
	// Inputs are the main inputs, in order.
	Inputs []Collection `json:"inputs,omitempty"`
	// SideInputs are the side inputs, in order.
	SideInputs []Collection `json:"side_inputs,omitempty"`
	// Outputs are the outputs, in order.
	Outputs []Collection `json:"outputs,omitempty"`
	// State has the state cells, by id.
	State []State `json:"state,omitempty"`
	// Timers has the timer families, by id.
	Timers []Timer `json:"timers,omitempty"`
	// Accumulator is the coder of a combine's accumulator.
	Accumulator *Coder `json:"accumulator,omitempty"`
	// Restriction is the coder of a splittable DoFn's restriction.
	Restriction *Coder `json:"restriction,omitempty"`
}

// Fn is a reference to code. A worker resolves it by name.
type Fn struct {
	// Name is the type key of a struct (package path and name), or the symbol of a function.
	Name string `json:"name"`
	// Signature is the signature of a function, and empty for a struct.
	Signature string `json:"signature,omitempty"`
}

// Collection is a PCollection at an input or output.
type Collection struct {
	// Tag is the name of the input or output: i0, i1 and so on in Go pipelines.
	Tag string `json:"tag"`
	// From is the source of an input: a transform and a tag, such as "Parse[i0]".
	From string `json:"from,omitempty"`
	// Access is the URN that says how a side input is read.
	Access string `json:"access,omitempty"`
	// Coder is the coder of the elements.
	Coder Coder `json:"coder"`
	// Windowing describes the windowing strategy, without its defaults.
	Windowing string `json:"windowing"`
}

// State is a state cell.
type State struct {
	ID string `json:"id"`
	// Kind is value, bag, combining, map, set or ordered_list.
	Kind string `json:"kind"`
	// Key is the coder of the keys of a map or set.
	Key *Coder `json:"key,omitempty"`
	// Value is the coder of the stored values, or of the accumulator of a combining cell. It is
	// nil for a set.
	Value *Coder `json:"value,omitempty"`
	// CombineFn is the function of a combining cell.
	CombineFn *Fn `json:"combine_fn,omitempty"`
}

// Timer is a timer family.
type Timer struct {
	Family string `json:"family"`
	// TimeDomain is EVENT_TIME or PROCESSING_TIME.
	TimeDomain string `json:"time_domain"`
	// Coder is the coder of a timer, with its key and its window.
	Coder Coder `json:"coder"`
}

// Coder is a coder with its components.
type Coder struct {
	URN string `json:"urn"`
	// Custom describes a coder that is written in Go.
	Custom *CustomCoder `json:"custom,omitempty"`
	// Fields are the names and types of the fields of a row.
	Fields []string `json:"fields,omitempty"`
	// Payload is everything else that the coder holds, in base64.
	Payload string `json:"payload,omitempty"`
	// Components are the component coders, in order.
	Components []Coder `json:"components,omitempty"`
}

// CustomCoder is a coder whose functions are in Go.
type CustomCoder struct {
	// Name is the name of the type as the coder has it, such as *beamagentspb.MemoryBlob.
	Name string `json:"name"`
	// Type is the type key: package path and name.
	Type string `json:"type"`
	// Encode and Decode are the functions of the coder.
	Encode Fn `json:"encode"`
	Decode Fn `json:"decode"`
}

// groups reports whether t buffers elements to group them.
func (t *Transform) groups() bool { return t.Kind == groupByKey || t.Kind == combinePerKey }

// Stateful reports whether a runner keeps anything of t between elements: cells, timers, elements
// to group, side inputs, or restrictions.
func (t *Transform) Stateful() bool {
	switch t.Kind {
	case groupByKey, combinePerKey, "beam:transform:reshuffle:v1":
		return true
	}
	return len(t.State) > 0 || len(t.Timers) > 0 || len(t.SideInputs) > 0 || t.Restriction != nil
}

// String returns a short form, such as KV<bytes, *beamagentspb.AgentEnvelope>.
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
		return inside // every custom coder is wrapped in one
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

// long returns the complete coder as text, to show the difference of two coders with the same
// short form.
func (c *Coder) long() string { return marshal(c) }

// anyText writes text that is not UTF-8 as an array of bytes, a form that no other text has. A
// fingerprint that was not read by Read may hold such text.
var anyText = json.WithMarshalers(json.MarshalToFunc(func(out *jsontext.Encoder, text string) error {
	if utf8.ValidString(text) {
		return errors.ErrUnsupported // leaves it to the default
	}
	return json.MarshalEncode(out, [][]byte{[]byte(text)})
}))

// marshal returns a part of a fingerprint as one line of JSON, for comparison.
func marshal(part any) string {
	b, err := json.Marshal(part, json.Deterministic(true), anyText)
	if err != nil {
		return err.Error() // not reached: texts and slices can always be encoded
	}
	return string(b)
}

// Write writes the JSON form: indented and sorted, with a line break at the end. It returns the
// errors of w, and ErrMalformed for a fingerprint that Read would refuse.
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

// Read reads the JSON form, at most MaxBytes. It returns the errors of r, ErrFormat, and
// ErrMalformed, which is also the error for an unknown member.
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

// Validate returns ErrFormat for another format. It returns ErrMalformed if a name, a kind or the
// URN of a coder is empty, or if a name occurs twice.
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

// unique checks that the parts of one sort have names, all different.
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

// unnamed reports whether c or a component of it has no URN.
func (c *Coder) unnamed() bool {
	return c != nil && (c.URN == "" || slices.ContainsFunc(c.Components, func(in Coder) bool { return in.unnamed() }))
}
