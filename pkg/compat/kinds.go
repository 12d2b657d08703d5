package compat

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Kind is what changed.
type Kind string

// The closed set of kinds, in the order in which Check reports them of one transform.
const (
	TransformAdded           Kind = "transform_added"
	StatefulTransformAdded   Kind = "stateful_transform_added"
	TransformRemoved         Kind = "transform_removed"
	StatefulTransformRemoved Kind = "stateful_transform_removed"
	TransformRenamed         Kind = "transform_renamed"
	StatefulTransformRenamed Kind = "stateful_transform_renamed"
	// NumberedTransformMoved: of several transforms with one name, this one has now the
	// number that another one had.
	NumberedTransformMoved Kind = "numbered_transform_moved"
	// NumberedTransformRewired: it has one of several equal names and another input, so
	// it may have been exchanged with one that looks the same.
	NumberedTransformRewired Kind = "numbered_transform_rewired"
	// TransformExchanged: it keeps state, or leads to what does, and has the input that
	// another one had that is like it in all else, and that has moved, too.
	TransformExchanged   Kind = "transform_exchanged"
	TransformKindChanged Kind = "transform_kind_changed"
	FlinkOperatorChanged Kind = "flink_operator_changed"
	// FlinkOperatorShared: it reads a PCollection that others read, too, and these are not
	// those of before.
	FlinkOperatorShared Kind = "flink_operator_shared"
	FnChanged           Kind = "fn_changed"
	CombineFnChanged    Kind = "combine_fn_changed"
	FnSignatureChanged  Kind = "fn_signature_changed"
	InputAdded          Kind = "input_added"
	InputRemoved        Kind = "input_removed"
	InputRewired        Kind = "input_rewired"
	// InputOrderChanged: an input comes from where another one of the same transform came
	// from, or from another output of the transform that it came from, and that other one
	// has moved, too.
	InputOrderChanged Kind = "input_order_changed"
	// KeyCoderChanged is about the key of an input of a stateful transform.
	KeyCoderChanged         Kind = "key_coder_changed"
	InputCoderChanged       Kind = "input_coder_changed"
	InputTypeChanged        Kind = "input_type_changed"
	OutputAdded             Kind = "output_added"
	OutputRemoved           Kind = "output_removed"
	OutputCoderChanged      Kind = "output_coder_changed"
	OutputTypeChanged       Kind = "output_type_changed"
	WindowingChanged        Kind = "windowing_changed"
	SideInputAdded          Kind = "side_input_added"
	SideInputRemoved        Kind = "side_input_removed"
	SideInputRewired        Kind = "side_input_rewired"
	SideInputChanged        Kind = "side_input_changed"
	StateAdded              Kind = "state_added"
	StateRemoved            Kind = "state_removed"
	StateRenamed            Kind = "state_renamed"
	StateKindChanged        Kind = "state_kind_changed"
	StateCoderChanged       Kind = "state_coder_changed"
	TimerFamilyAdded        Kind = "timer_family_added"
	TimerFamilyRemoved      Kind = "timer_family_removed"
	TimerFamilyRenamed      Kind = "timer_family_renamed"
	TimeDomainChanged       Kind = "time_domain_changed"
	TimerCoderChanged       Kind = "timer_coder_changed"
	AccumulatorCoderChanged Kind = "accumulator_coder_changed"
	RestrictionCoderChanged Kind = "restriction_coder_changed"
)

// Effect is what a runner does with a change.
type Effect string

// The closed set of effects.
const (
	// NoEffect: state, timers and data go on as they were.
	NoEffect Effect = "nothing"
	// Refuses: the update is refused, and the old job goes on or can be started again.
	Refuses Effect = "refuses the update"
	// LosesState: the new job begins without the state, and nothing says so.
	LosesState Effect = "orphans state silently"
	// LosesTimers: timers that are set do not fire.
	LosesTimers Effect = "drops in-flight timers"
	// Misreads: bytes of the old coder reach the new one: wrong values, or a bundle
	// that fails for ever.
	Misreads Effect = "misreads bytes"
	// Mixes: data of before is treated as before, or in part so.
	Mixes Effect = "mixes old and new"
)

// Severity is what a finding means for an update.
type Severity string

// The severities.
const (
	Safe   Severity = "safe"
	Unsafe Severity = "unsafe"
)

// Runner is a runner that the rules are about.
type Runner string

// The runners.
const (
	Dataflow Runner = "dataflow"
	Flink    Runner = "flink"
)

// Consequence is what one runner does with a change.
type Consequence struct {
	Effect Effect
	// Source is where that is known from.
	Source string
	// Verified reports that the source says so of this very case. Otherwise it is
	// inferred from what the source says.
	Verified bool
}

// Text is the effect, and whether it was verified.
func (c Consequence) Text() string {
	if c.Verified {
		return string(c.Effect) + " (verified)"
	}
	return string(c.Effect) + " (inferred)"
}

// Rule is what is known of a kind.
type Rule struct {
	// Summary says what changed, in a sentence.
	Summary         string
	Dataflow, Flink Consequence
	// Avoid says how to avoid it, or what to do instead.
	Avoid string
}

// On is the consequence on a runner.
func (r Rule) On(runner Runner) Consequence {
	if runner == Flink {
		return r.Flink
	}
	return r.Dataflow
}

// Severity is Unsafe where one of the runners does anything but nothing. Without
// runners it is about both.
func (r Rule) Severity(runners ...Runner) Severity {
	if len(runners) == 0 {
		runners = []Runner{Dataflow, Flink}
	}
	if slices.ContainsFunc(runners, func(runner Runner) bool { return r.On(runner).Effect != NoEffect }) {
		return Unsafe
	}
	return Safe
}

// Kinds returns every kind, in order.
func Kinds() []Kind {
	kinds := make([]Kind, len(rules))
	for i, r := range rules {
		kinds[i] = r.kind
	}
	return kinds
}

// RuleOf returns what is known of k, and whether k is a kind.
func RuleOf(k Kind) (Rule, bool) {
	i := slices.IndexFunc(rules, func(r kindRule) bool { return r.kind == k })
	if i < 0 {
		return Rule{}, false
	}
	return rules[i].Rule, true
}

// Finding is one difference.
type Finding struct {
	Kind Kind
	// Transform is the name in the new pipeline, or in the old one where it is gone.
	Transform string
	// Subject is what of it changed, such as "state memory", "input i0"; empty for the
	// transform as a whole.
	Subject string
	// Old and New are what was and what is, empty for nothing.
	Old, New string
	// Severity is about both runners.
	Severity Severity
	Rule
}

// oneLine keeps a name, which is whatever a pipeline says, on its line, and shows what a
// terminal would not.
func oneLine(name string) string {
	var b strings.Builder
	for _, r := range name {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// String is all of f, in lines, with what cannot be printed escaped.
func (f Finding) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s: %s", f.Severity, f.Kind, oneLine(f.Transform))
	if f.Subject != "" {
		text.WriteString(", " + oneLine(f.Subject))
	}
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&text, "\n  %-9s %s", name, oneLine(value))
		}
	}
	line("what", f.Summary)
	line("old", f.Old)
	line("new", f.New)
	line("Dataflow", f.Dataflow.Text()+": "+f.Dataflow.Source)
	line("Flink", f.Flink.Text()+": "+f.Flink.Source)
	line("avoid", f.Avoid)
	return text.String()
}

// Where the rules are from.
const (
	dataflowCheck    = "Dataflow documentation, \"Update an existing pipeline\": a compatibility check ensures that intermediate state and buffered data can be transferred"
	dataflowInFlight = "Dataflow documentation, \"Update an existing pipeline\": buffered data is processed by the new pipeline, and transforms that it adds may not see it"
	dataflowCoder    = "apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\""
	dataflowMapping  = "Beam Go SDK, runners/dataflow: --transform_name_mapping maps old names to new ones, so steps are matched by name"
	noStateCheck     = "apache/beam issue 17966, open: there is no validation of user state on an update"
	flinkTopology    = "Flink documentation, \"Upgrading Applications and Flink Versions\", Application Topology"
	flinkOperatorIDs = "Flink documentation, \"Upgrading Applications and Flink Versions\", Matching Operator State: state without its operator id stops the restore, or is discarded where that was allowed"
	flinkStage       = "Beam source: FusedPipeline names a stage after its input PCollection, the Go SDK numbers PCollections in construction order (measured), and the Flink runner takes that for the operator's id; " +
		"Flink documentation, \"Savepoints\": state that no operator takes stops the restore"
	flinkCounter = "Beam source: GreedyStageFuser gives a stateful step, and all others that read its input, stages that begin with that PCollection; " +
		"FusedPipeline tells stages of one PCollection apart by a counter, in the order of a hash set"
	flinkNames     = "Beam source, FlinkStreamingPortablePipelineTranslator: the unique name of a GroupByKey is its operator id"
	flinkStateIDs  = "Flink documentation, \"Upgrading Applications and Flink Versions\", Stateful Operators: state is found by its name within an operator"
	flinkDataType  = "Flink documentation, \"Upgrading Applications and Flink Versions\", Stateful Operators: the data type of state cannot change; bytes of a Go coder are opaque to it"
	goResolves     = "Beam Go SDK, core/runtime/graphx and options/jobopts: a worker resolves code by its type key or symbol, in the binary that was staged with the graph"
	flinkFunctions = "Flink documentation, \"Upgrading Applications and Flink Versions\": functions can be changed freely"
	flinkInternal  = "Flink documentation, \"Upgrading Applications and Flink Versions\", Stateful Operators: input and output types are part of internal state"
	goNumbers      = "Beam Go SDK, core/runtime/graphx: inputs, side inputs and outputs are known by their numbers, and a CoGroupByKey of several inputs stores that number with each element"
	timersByID     = "Beam model: a timer is delivered to its transform and family by name"
)

type kindRule struct {
	kind Kind
	Rule
}

func says(e Effect, source string) Consequence {
	return Consequence{Effect: e, Source: source, Verified: true}
}

func suggests(e Effect, source string) Consequence { return Consequence{Effect: e, Source: source} }

const (
	keepName     = "keep the scope and the name; on Dataflow map the old name to the new one with --transform_name_mapping"
	newStep      = "leave the transform as it is, and add one with a new name beside it until the old one is drained; or drain the job"
	keepCoder    = "keep the type and the coder, with its package, function names and signatures; new fields of a message are safe"
	newCell      = "leave the cell as it is and add one with a new id; read the old one while there is something in it"
	newFamily    = "keep the family and its time domain; tell timers apart by their tags"
	appendOutput = "leave the outputs in their order and add new ones at the end"
)

var rules = []kindRule{
	{TransformAdded, Rule{
		"a transform that keeps nothing was added",
		says(NoEffect, dataflowInFlight), says(NoEffect, flinkTopology),
		"nothing to avoid on Dataflow; on Flink construct it after all that keeps state, on an input that none of these reads (flink_operator_changed, flink_operator_shared)",
	}},
	{StatefulTransformAdded, Rule{
		"a transform that keeps state was added: it begins with none",
		suggests(NoEffect, dataflowCheck), suggests(NoEffect, flinkTopology),
		"nothing to avoid on Dataflow; on Flink construct it after all that keeps state, on an input that none of these reads (flink_operator_changed, flink_operator_shared)",
	}},
	{TransformRemoved, Rule{
		"a transform that keeps nothing was removed",
		suggests(Refuses, dataflowMapping), says(NoEffect, flinkTopology),
		"leave it in as one that passes everything on; or drain the job",
	}},
	{StatefulTransformRemoved, Rule{
		"a transform that keeps state was removed",
		suggests(Refuses, dataflowCheck), says(Refuses, flinkTopology),
		"leave it in without input until its state is of no use; or drain the job",
	}},
	{TransformRenamed, Rule{
		"a transform that keeps nothing has another name",
		suggests(Refuses, dataflowMapping), says(NoEffect, flinkTopology),
		keepName,
	}},
	{StatefulTransformRenamed, Rule{
		"a transform that keeps state has another name",
		suggests(Refuses, dataflowMapping), suggests(Refuses, flinkNames),
		keepName,
	}},
	{NumberedTransformMoved, Rule{
		"of several transforms with one name, this one has now the number of another",
		suggests(Misreads, dataflowMapping), suggests(Misreads, flinkNames),
		"construct them in the old order; give each a scope of its own",
	}},
	{NumberedTransformRewired, Rule{
		"one of several transforms with one name has another input: it may have changed places with one that is the same in all else",
		suggests(Misreads, dataflowMapping), suggests(Misreads, flinkNames),
		"construct them in the old order; give each a scope of its own",
	}},
	{TransformExchanged, Rule{
		"a transform that keeps state, or leads to one that does, has the input of another one that is the same in all else: they may have exchanged their names",
		suggests(Misreads, dataflowMapping), suggests(Misreads, flinkNames),
		"leave to each the name that it had with its input",
	}},
	{TransformKindChanged, Rule{
		"the name stands for another kind of transform",
		suggests(Refuses, dataflowCheck), suggests(Refuses, flinkOperatorIDs),
		newStep,
	}},
	{FlinkOperatorChanged, Rule{
		"the input of a stateful transform has another number in construction order, and so its state another operator id; a step that has the old number now gets the state",
		suggests(NoEffect, dataflowMapping), says(Refuses, flinkStage),
		"construct what is new after all that keeps state, and remove nothing before it; Dataflow does not mind",
	}},
	{FlinkOperatorShared, Rule{
		"a transform that keeps state reads what others read, too, and these others changed: on Flink they share an operator id but for a counter, whose order then may change",
		suggests(NoEffect, dataflowMapping), suggests(Misreads, flinkCounter),
		"give each transform that keeps state an input that nobody else reads, such as the output of a step that passes everything on; Dataflow does not mind",
	}},
	{FnChanged, Rule{
		"the code has another name, which a worker finds in the binary that came with the job",
		suggests(NoEffect, goResolves), suggests(NoEffect, goResolves),
		"nothing to avoid; with a binary for workers that is built apart (--worker_binary), build both from one source, or bundles fail",
	}},
	{CombineFnChanged, Rule{
		"what combines has another name: if it is other code, too, it goes on with what the old code accumulated",
		suggests(Mixes, dataflowInFlight), suggests(Mixes, flinkStateIDs),
		"keep package, type and function name; or leave it as it is, and add another one beside it",
	}},
	{FnSignatureChanged, Rule{
		"a function has another signature",
		suggests(NoEffect, dataflowCheck), says(NoEffect, flinkFunctions),
		"nothing to avoid: what matters of it are the inputs, outputs and coders",
	}},
	{InputAdded, Rule{
		"a transform has one more main input",
		suggests(NoEffect, dataflowCheck), suggests(NoEffect, flinkInternal),
		"nothing to avoid for a Flatten; a CoGroupByKey with one more input has other coders, which are findings of their own",
	}},
	{InputRemoved, Rule{
		"a transform has one main input less",
		suggests(Refuses, dataflowCheck), suggests(NoEffect, flinkInternal),
		"leave the input in, from a source that ended",
	}},
	{InputRewired, Rule{
		"an input comes from another transform",
		says(NoEffect, dataflowInFlight), suggests(NoEffect, flinkTopology),
		"nothing to avoid; elements that are already behind the change do not take the new way",
	}},
	{InputOrderChanged, Rule{
		"inputs or side inputs of one transform, or those that read the outputs of one, have changed places: what is buffered or stored of one is taken for the other's",
		suggests(Mixes, goNumbers), suggests(Mixes, goNumbers),
		"keep the order of inputs, side inputs and outputs, and add new ones at the end",
	}},
	{KeyCoderChanged, Rule{
		"keys are encoded another way: the state of a key is not found under its new bytes",
		suggests(Refuses, dataflowCoder), suggests(LosesState, flinkDataType),
		newStep,
	}},
	{InputCoderChanged, Rule{
		"elements of an input are encoded another way",
		says(Refuses, dataflowCoder), suggests(Misreads, flinkInternal),
		keepCoder,
	}},
	{InputTypeChanged, Rule{
		"elements of an input have another type",
		says(Refuses, dataflowCoder), suggests(Misreads, flinkInternal),
		keepCoder,
	}},
	{OutputAdded, Rule{
		"a transform has one more output, at the end",
		suggests(NoEffect, dataflowCheck), suggests(NoEffect, flinkInternal),
		"nothing to avoid on Dataflow; on Flink only where the transform is constructed after all that keeps state: what is constructed later gets another number (flink_operator_changed)",
	}},
	{OutputRemoved, Rule{
		"a transform has an output less",
		suggests(Refuses, dataflowCheck), suggests(NoEffect, flinkInternal),
		"leave the output in and emit nothing",
	}},
	{OutputCoderChanged, Rule{
		"elements of an output are encoded another way, or the outputs have another order",
		says(Refuses, dataflowCoder), suggests(Misreads, flinkInternal),
		keepCoder + "; " + appendOutput,
	}},
	{OutputTypeChanged, Rule{
		"elements of an output have another type, or the outputs have another order",
		says(Refuses, dataflowCoder), suggests(Misreads, flinkInternal),
		keepCoder + "; " + appendOutput,
	}},
	{WindowingChanged, Rule{
		"windows or triggers changed: buffered elements, state and timers stay in their old windows",
		suggests(Mixes, dataflowInFlight), suggests(Misreads, flinkDataType),
		newStep,
	}},
	{SideInputAdded, Rule{
		"a transform has one more side input",
		suggests(Refuses, dataflowCheck), suggests(NoEffect, flinkTopology),
		newStep,
	}},
	{SideInputRemoved, Rule{
		"a transform has a side input less",
		suggests(Refuses, dataflowCheck), suggests(Refuses, flinkOperatorIDs),
		newStep,
	}},
	{SideInputRewired, Rule{
		"a side input comes from another transform: what was read of it before may stay in use",
		suggests(Mixes, dataflowInFlight), suggests(Mixes, flinkStateIDs),
		newStep,
	}},
	{SideInputChanged, Rule{
		"a side input has another coder, access or windowing",
		suggests(Refuses, dataflowCoder), suggests(Misreads, flinkDataType),
		newStep,
	}},
	{StateAdded, Rule{
		"a cell was added: it begins empty",
		suggests(NoEffect, noStateCheck), suggests(NoEffect, flinkStateIDs),
		"nothing to avoid: read nothing as the first value",
	}},
	{StateRemoved, Rule{
		"a cell was removed: what is in it stays stored, and nobody reads or clears it",
		suggests(LosesState, noStateCheck), suggests(LosesState, flinkStateIDs),
		"leave the field in and clear the cell when its key is seen",
	}},
	{StateRenamed, Rule{
		"a cell has another id: the new one begins empty, and the old one stays stored",
		suggests(LosesState, noStateCheck), suggests(LosesState, flinkStateIDs),
		"keep the id",
	}},
	{StateKindChanged, Rule{
		"the id stands for another kind of cell: its bytes are read by other rules",
		suggests(Misreads, noStateCheck), suggests(Misreads, flinkDataType),
		newCell,
	}},
	{StateCoderChanged, Rule{
		"what is in a cell is encoded another way",
		suggests(Refuses, dataflowCoder), suggests(Misreads, flinkDataType),
		newCell,
	}},
	{TimerFamilyAdded, Rule{
		"a timer family was added: none is set yet",
		suggests(NoEffect, timersByID), suggests(NoEffect, timersByID),
		"nothing to avoid",
	}},
	{TimerFamilyRemoved, Rule{
		"a timer family was removed: timers that are set have nobody to go to",
		suggests(LosesTimers, timersByID), suggests(LosesTimers, timersByID),
		"leave the family in until its last timer has fired",
	}},
	{TimerFamilyRenamed, Rule{
		"a timer family has another id: timers that are set have nobody to go to",
		suggests(LosesTimers, timersByID), suggests(LosesTimers, timersByID),
		newFamily,
	}},
	{TimeDomainChanged, Rule{
		"a timer family has another time domain: timers that are set are due by the old one",
		suggests(Mixes, timersByID), suggests(LosesTimers, timersByID),
		"keep the time domain, and add a family with a new id for the other one",
	}},
	{TimerCoderChanged, Rule{
		"the key or the window of timers is encoded another way",
		suggests(Refuses, dataflowCoder), suggests(Misreads, flinkDataType),
		newStep,
	}},
	{AccumulatorCoderChanged, Rule{
		"what a combine keeps is encoded another way",
		says(Refuses, "spotify/scio issue 2488 and apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\", of a combine, too"),
		suggests(Misreads, flinkDataType),
		newStep,
	}},
	{RestrictionCoderChanged, Rule{
		"what a splittable DoFn keeps is encoded another way",
		suggests(Refuses, dataflowCoder), suggests(Misreads, flinkDataType),
		newStep,
	}},
}
