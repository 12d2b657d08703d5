package compat

// The sources of the rules.
const (
	dataflowCheck    = "Dataflow documentation, \"Update an existing pipeline\": a compatibility check ensures that intermediate state and buffered data can be transferred"
	dataflowInFlight = "Dataflow documentation, \"Update an existing pipeline\": buffered data is processed by the new pipeline, and transforms that it adds may not see it"
	dataflowCoder    = "apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\""
	dataflowMapping  = "Beam Go SDK, runners/dataflow: --transform_name_mapping maps old names to new ones, so steps are matched by name"
	dataflowCombine  = "spotify/scio issue 2488 and apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\", of a combine, too"
	dataflowWorkers  = "Dataflow documentation, \"Update an existing pipeline\": the number of workers is no part of the compatibility check"
	dataflowNames    = "Dataflow matches steps by name; it has no operator ids that numbers are part of"
	noStateCheck     = "apache/beam issue 17966, open: there is no validation of user state on an update"
	goResolves       = "Beam Go SDK, core/runtime/graphx and options/jobopts: a worker resolves code by its type key or symbol, in the binary that was staged with the graph"
	goNumbers        = "Beam Go SDK, core/runtime/graphx: inputs, side inputs and outputs are known by their numbers, and a CoGroupByKey of several inputs stores that number with each element"
	timersByID       = "Beam model: a timer is delivered to its transform and family by name"
	agentsIDs        = "pkg/runners/flink: names replace numbers before the job is submitted"
	nothingStored    = "as input_type_changed, which was run: a savepoint holds no elements between steps"
	twoFamilies      = "in 6 of 8 runs the step stood still, no timer of it fired, and no savepoint completed"
	asSideInput      = "as side_input of compat lint, which was run: a streaming job with a side input fails at its checkpoints"
	noSavepoint      = "as side_input of compat lint, which was run: no savepoint of a streaming job with a side input can be made"
	asRemoved        = "as stateful_transform_removed, which was run"
	opaque           = "Beam's Flink runner stores the bytes of a Go coder and does not look into them"

	// flinkRun is the source of what the upgrade matrix, pkg/compat/graph/upgrade, has observed.
	flinkRun = "Flink 1.19.0, Beam's Flink runner 2.70.0, Go SDK 2.77.0, 2026-12-01"
)

type kindRule struct {
	kind Kind
	Rule
}

// verified is a consequence that a source states for exactly this change.
func verified(e Effect, source string) Consequence { return Consequence{e, InSource, source} }

// inferred is a consequence that follows from a source.
func inferred(e Effect, source string) Consequence { return Consequence{e, Inferred, source} }

// ran is a consequence that the upgrade matrix has observed.
func ran(e Effect) Consequence { return Consequence{e, Run, flinkRun} }

// ranAs is ran with a description of what was observed.
func ranAs(e Effect, observed string) Consequence {
	return Consequence{e, Run, flinkRun + ": " + observed}
}

const (
	keepName     = "keep the scope and the name; on Dataflow map the old name to the new one with --transform_name_mapping"
	newStep      = "leave the transform as it is, and add one with a new name beside it until the old one is drained; or drain the job"
	keepCoder    = "keep the type and the coder, with its package, function names and signatures; new fields of a message are safe"
	newCell      = "leave the cell as it is and add one with a new id; read the old one while there is something in it"
	newFamily    = "keep the family and its time domain; tell timers apart by their tags"
	appendOutput = "leave the outputs in their order and add new ones at the end"
	buildLast    = "with the stock runner construct new steps after all that keeps state, and remove none before it; or run the job with agents-flink from its first start"
	ownInput     = "give each transform that keeps state an input that nobody else reads, such as the output of a step that passes everything on"
	ownScope     = "construct them in the old order; give each a scope of its own"
)

var rules = []kindRule{
	{TransformAdded, Rule{
		"a transform that keeps no state was added",
		verified(NoEffect, dataflowInFlight), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid, but on Flink with the stock runner construct it after all that keeps state (flink_operator_changed, flink_transform_changed), and on an input that no such step reads (flink_operator_shared)",
	}},
	{StatefulTransformAdded, Rule{
		"a transform that keeps state was added: it begins without state",
		inferred(NoEffect, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid, but on Flink with the stock runner construct it after all that keeps state (flink_operator_changed, flink_transform_changed), and on an input that no such step reads (flink_operator_shared)",
	}},
	{TransformRemoved, Rule{
		"a transform that keeps no state was removed",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		"leave it in as one that passes everything on; or drain the job",
	}},
	{StatefulTransformRemoved, Rule{
		"a transform that keeps state was removed",
		inferred(Refuses, dataflowCheck), ran(Refuses), ran(Refuses), Consequence{},
		"leave it in without input until its state is of no use; or drain the job",
	}},
	{TransformRenamed, Rule{
		"a transform that keeps no state has another name",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		keepName,
	}},
	{StatefulTransformRenamed, Rule{
		"a transform that keeps state has another name",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		keepName,
	}},
	{GroupingRenamed, Rule{
		"a GroupByKey or CombinePerKey has another name",
		inferred(Refuses, dataflowMapping), ran(Refuses), ran(Refuses), Consequence{},
		keepName,
	}},
	{NumberedTransformMoved, Rule{
		"of several transforms with one name, this one now has the number of another",
		inferred(Misreads, dataflowMapping), ran(Misreads), ran(Misreads), Consequence{},
		ownScope,
	}},
	{NumberedTransformRewired, Rule{
		"one of several transforms with one name has another input: it may have changed places with one that is the same in all else",
		inferred(Misreads, dataflowMapping), ran(Misreads), ran(Misreads), Consequence{},
		ownScope,
	}},
	{TransformExchanged, Rule{
		"a transform that keeps state, or leads to one that does, has the input of another one that is the same in all else: they may have exchanged their names",
		inferred(Misreads, dataflowMapping), ran(NoEffect), ran(Misreads), Consequence{},
		"leave to each the name that it had with its input",
	}},
	{TransformKindChanged, Rule{
		"the name stands for another kind of transform",
		inferred(Refuses, dataflowCheck), inferred(Refuses, asRemoved), inferred(Refuses, asRemoved), Consequence{},
		newStep,
	}},
	{FlinkOperatorChanged, Rule{
		"the input of a transform that keeps state has another number in construction order, and with the stock runner the state another operator id",
		inferred(NoEffect, dataflowNames), ran(Refuses), ran(NoEffect), Consequence{},
		buildLast,
	}},
	{FlinkOperatorExchanged, Rule{
		"the input of a transform that keeps state has the number that the input of another one had: with the stock runner it gets the state of the other one",
		inferred(NoEffect, dataflowNames), ran(Misreads), ran(NoEffect), Consequence{},
		buildLast,
	}},
	{FlinkTransformChanged, Rule{
		"a transform with timers or side inputs has another number in construction order: with the stock runner its timers are stored under the old number",
		inferred(NoEffect, dataflowNames), ran(FailsForever), ran(NoEffect), Consequence{},
		buildLast,
	}},
	{FlinkOperatorShared, Rule{
		"a transform that keeps state reads what transforms without state read, and these others changed: with the stock runner they share an operator id but for a counter, which may now be another",
		inferred(NoEffect, dataflowNames), ranAs(LosesState, "in one of the runs all was kept: the order that the counter follows is not fixed"), ran(NoEffect), Consequence{},
		ownInput,
	}},
	{FlinkOperatorOrder, Rule{
		"a transform that keeps state reads what others with state read, and these others changed: with the stock runner the order of a hash set tells which one gets which state and timers",
		inferred(NoEffect, dataflowNames), ranAs(FailsForever, "in 2 of 3 runs the timers reached the other transform; in the third all was kept"), ran(NoEffect), Consequence{},
		ownInput,
	}},
	{AgentsFlinkOperatorChanged, Rule{
		"with agents-flink the transform has another operator id: it has another name, or keeps no cells and no timers and its input comes from elsewhere",
		inferred(NoEffect, dataflowNames), ran(NoEffect), ran(Refuses), Consequence{},
		"keep the scope and the name of a transform that keeps state, and with them the name of its DoFn; keep what a source reads from",
	}},
	{FnChanged, Rule{
		"the code has another name, which a worker finds in the binary that came with the job",
		inferred(NoEffect, goResolves), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid; with a binary for workers that is built apart (--worker_binary), build both from one source, or bundles fail",
	}},
	{CombineFnChanged, Rule{
		"what combines has another name: if it is other code, too, it goes on with what the old code accumulated",
		inferred(Mixes, dataflowInFlight), ran(Mixes), ran(Mixes), Consequence{},
		"keep package, type and function name; or leave it as it is, and add another one beside it",
	}},
	{FnSignatureChanged, Rule{
		"a function has another signature",
		inferred(NoEffect, dataflowCheck), inferred(NoEffect, goResolves), inferred(NoEffect, goResolves), Consequence{},
		"nothing to avoid: what matters of it are the inputs, outputs and coders",
	}},
	{InputAdded, Rule{
		"a transform has one more main input",
		inferred(NoEffect, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid for a Flatten; a CoGroupByKey with one more input has other coders, which are findings of their own",
	}},
	{InputRemoved, Rule{
		"a transform has one main input less",
		inferred(Refuses, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"leave the input in, from a source that ended",
	}},
	{InputRewired, Rule{
		"an input comes from another transform",
		verified(NoEffect, dataflowInFlight), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid; elements that are already behind the change do not take the new way",
	}},
	{InputOrderChanged, Rule{
		"inputs or side inputs of one transform, or those that read the outputs of one, have changed places: what is buffered or stored of one is taken for the other's",
		inferred(Mixes, goNumbers), ran(Mixes), ran(Mixes), Consequence{},
		"keep the order of inputs, side inputs and outputs, and add new ones at the end",
	}},
	{KeyCoderChanged, Rule{
		"keys are encoded another way: the state of a key is not found under its new bytes",
		inferred(Refuses, dataflowCoder), ran(LosesState), ran(LosesState), Consequence{},
		newStep,
	}},
	{GroupedCoderChanged, Rule{
		"what a GroupByKey or CombinePerKey holds back is encoded another way",
		verified(Refuses, dataflowCoder), ran(FailsForever), ran(FailsForever), Consequence{},
		keepCoder,
	}},
	{InputCoderChanged, Rule{
		"elements of an input are encoded another way",
		verified(Refuses, dataflowCoder), inferred(NoEffect, nothingStored), inferred(NoEffect, nothingStored), Consequence{},
		keepCoder,
	}},
	{InputTypeChanged, Rule{
		"elements of an input have another type",
		verified(Refuses, dataflowCoder), ran(NoEffect), ran(NoEffect), Consequence{},
		keepCoder,
	}},
	{OutputAdded, Rule{
		"a transform has one more output, at the end",
		inferred(NoEffect, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid, but on Flink with the stock runner what is constructed later gets another number (flink_operator_changed)",
	}},
	{OutputRemoved, Rule{
		"a transform has an output less",
		inferred(Refuses, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"leave the output in and emit nothing",
	}},
	{OutputCoderChanged, Rule{
		"elements of an output are encoded another way, or the outputs have another order",
		verified(Refuses, dataflowCoder), inferred(NoEffect, nothingStored), inferred(NoEffect, nothingStored), Consequence{},
		keepCoder + "; " + appendOutput,
	}},
	{OutputTypeChanged, Rule{
		"elements of an output have another type, or the outputs have another order",
		verified(Refuses, dataflowCoder), ran(NoEffect), ran(NoEffect), Consequence{},
		keepCoder + "; " + appendOutput,
	}},
	{WindowingChanged, Rule{
		"windows or triggers changed: buffered elements, state and timers stay in their old windows",
		inferred(Mixes, dataflowInFlight), ran(LosesState), ran(LosesState), Consequence{},
		newStep,
	}},
	{SideInputAdded, Rule{
		"a transform has one more side input",
		inferred(Refuses, dataflowCheck), inferred(FailsForever, asSideInput), inferred(FailsForever, asSideInput), Consequence{},
		newStep,
	}},
	{SideInputRemoved, Rule{
		"a transform has a side input less",
		inferred(Refuses, dataflowCheck), inferred(Refuses, noSavepoint), inferred(Refuses, noSavepoint), Consequence{},
		newStep,
	}},
	{SideInputRewired, Rule{
		"a side input comes from another transform: what was read of it before may stay in use",
		inferred(Mixes, dataflowInFlight), inferred(Refuses, noSavepoint), inferred(Refuses, noSavepoint), Consequence{},
		newStep,
	}},
	{SideInputChanged, Rule{
		"a side input has another coder, access or windowing",
		inferred(Refuses, dataflowCoder), inferred(Refuses, noSavepoint), inferred(Refuses, noSavepoint), Consequence{},
		newStep,
	}},
	{StateAdded, Rule{
		"a cell was added: it begins empty",
		inferred(NoEffect, noStateCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid: read nothing as the first value",
	}},
	{StateRemoved, Rule{
		"a cell was removed: what is in it stays stored, and nobody reads or clears it",
		inferred(LosesState, noStateCheck), ranAs(NoEffect, "the other cells keep what is in them"), ranAs(NoEffect, "the other cells keep what is in them"), Consequence{},
		"leave the field in and clear the cell when its key is seen",
	}},
	{StateRenamed, Rule{
		"a cell has another id: the new one begins empty, and the old one stays stored",
		inferred(LosesState, noStateCheck), ran(LosesState), ran(LosesState), Consequence{},
		"keep the id",
	}},
	{StateKindChanged, Rule{
		"the id stands for another kind of cell: its bytes are read by other rules",
		inferred(Misreads, noStateCheck), ran(Misreads), ran(Misreads), Consequence{},
		newCell,
	}},
	{StateCoderChanged, Rule{
		"what is in a cell is encoded another way",
		inferred(Refuses, dataflowCoder), ran(Misreads), ran(Misreads), Consequence{},
		newCell,
	}},
	{TimerFamilyAdded, Rule{
		"timers were added to a transform: none is set yet",
		inferred(NoEffect, timersByID), inferred(NoEffect, timersByID), inferred(NoEffect, timersByID), Consequence{},
		"nothing to avoid",
	}},
	{SecondTimerFamilyAdded, Rule{
		"a transform has one more timer family, and now more than one",
		inferred(NoEffect, timersByID), ranAs(LosesTimers, twoFamilies), ranAs(LosesTimers, twoFamilies), Consequence{},
		"use one family, and tell timers apart by their tags",
	}},
	{TimerFamilyRemoved, Rule{
		"a timer family was removed: timers that are set have nobody to go to",
		inferred(LosesTimers, timersByID), inferred(FailsForever, "as timer_family_renamed, which was run"), inferred(FailsForever, "as timer_family_renamed, which was run"), Consequence{},
		"leave the family in until its last timer has fired",
	}},
	{TimerFamilyRenamed, Rule{
		"a timer family has another id: timers that are set have nobody to go to",
		inferred(LosesTimers, timersByID), ran(FailsForever), ran(FailsForever), Consequence{},
		newFamily,
	}},
	{TimeDomainChanged, Rule{
		"a timer family has another time domain: timers that are set are due by the old one",
		inferred(Mixes, timersByID), ranAs(NoEffect, "timers that were set fired when they were due by event time"), ranAs(NoEffect, "timers that were set fired when they were due by event time"), Consequence{},
		"keep the time domain, and add a family with a new id for the other one",
	}},
	{TimerCoderChanged, Rule{
		"the key or the window of timers is encoded another way",
		inferred(Refuses, dataflowCoder), ran(FailsForever), ran(FailsForever), Consequence{},
		newStep,
	}},
	{AccumulatorCoderChanged, Rule{
		"what a combine keeps is encoded another way",
		verified(Refuses, dataflowCombine), ranAs(NoEffect, "Flink stores the values, and combines them when the window ends"), ranAs(NoEffect, "Flink stores the values, and combines them when the window ends"), Consequence{},
		newStep,
	}},
	{RestrictionCoderChanged, Rule{
		"what a splittable DoFn keeps is encoded another way",
		inferred(Refuses, dataflowCoder), inferred(Misreads, opaque), inferred(Misreads, opaque), Consequence{},
		newStep,
	}},
	{SameBytes, Rule{
		"a coder has another name and writes the same bytes",
		inferred(Refuses, dataflowCoder), ran(NoEffect), ran(NoEffect), Consequence{},
		keepCoder,
	}},
	{EnvironmentChanged, Rule{
		"the workers run in another kind of environment, which is part of Flink's operator ids",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"keep --environment_type for the life of the state; LOOPBACK and EXTERNAL are one kind",
	}},
	{ParallelismChanged, Rule{
		"the job has another parallelism",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(NoEffect), Consequence{},
		"run the job with agents-flink from its first start, without operator chaining and with a maximum parallelism that suffices",
	}},
	{MaxParallelismChanged, Rule{
		"the job has another maximum parallelism, of which the keys' places are made",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"choose it for the life of the state",
	}},
	{ChainingChanged, Rule{
		"operators are chained in another way, which changes the operator id of the Impulse",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"keep it for the life of the state; without chaining a job can be rescaled",
	}},
}
