package compat

// The sources of the rules.
const (
	dataflowCheck    = "Dataflow documentation, \"Update an existing pipeline\": a compatibility check ensures that intermediate state and buffered data can be transferred"
	dataflowInFlight = "Dataflow documentation, \"Update an existing pipeline\": buffered data is processed by the new pipeline, and transforms that it adds may not see it"
	dataflowCoder    = "apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\""
	dataflowMapping  = "Beam Go SDK, runners/dataflow: --transform_name_mapping maps old names to new ones, so steps are matched by name"
	dataflowCombine  = "spotify/scio issue 2488 and apache/beam issues 30357 and 34933: \"The Coder or type for step ... has changed\", of a combine, too"
	dataflowWorkers  = "Dataflow documentation, \"Update an existing pipeline\": the number of workers is not part of the compatibility check"
	dataflowNames    = "Dataflow matches steps by name; it has no operator ids with numbers in them"
	noStateCheck     = "apache/beam issue 17966, open: there is no validation of user state on an update"
	goResolves       = "Beam Go SDK, core/runtime/graphx and options/jobopts: a worker finds code by its type key or symbol, in the binary that was staged with the graph"
	goNumbers        = "Beam Go SDK, core/runtime/graphx: inputs, side inputs and outputs are identified by their numbers, and a CoGroupByKey of several inputs stores that number with each element"
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
	newCell      = "leave the cell as it is, and add one with a new id; read the old one as long as it has data"
	newFamily    = "keep the family and its time domain; distinguish timers by their tags"
	appendOutput = "leave the outputs in their order and add new ones at the end"
	buildLast    = "with the stock runner construct new steps after all steps that keep state, and do not remove a step before them; or run the job with agents-flink from its first start"
	ownInput     = "give each transform that keeps state an input that no other transform reads, such as the output of a step that passes on its elements"
	ownScope     = "construct them in the old order; give each a scope of its own"
)

var rules = []kindRule{
	{TransformAdded, Rule{
		"a transform without state was added",
		verified(NoEffect, dataflowInFlight), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid, except on Flink with the stock runner: there construct it after all steps that keep state (flink_operator_changed, flink_transform_changed), and on an input that no such step reads (flink_operator_shared)",
	}},
	{StatefulTransformAdded, Rule{
		"a transform that keeps state was added: it begins without state",
		inferred(NoEffect, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid, except on Flink with the stock runner: there construct it after all steps that keep state (flink_operator_changed, flink_transform_changed), and on an input that no such step reads (flink_operator_shared)",
	}},
	{TransformRemoved, Rule{
		"a transform without state was removed",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		"keep the step and let it pass on its elements; or drain the job",
	}},
	{StatefulTransformRemoved, Rule{
		"a transform that keeps state was removed",
		inferred(Refuses, dataflowCheck), ran(Refuses), ran(Refuses), Consequence{},
		"keep the step without input until its state is no longer needed; or drain the job",
	}},
	{TransformRenamed, Rule{
		"a transform without state was renamed",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		keepName,
	}},
	{StatefulTransformRenamed, Rule{
		"a transform that keeps state was renamed",
		inferred(Refuses, dataflowMapping), ran(NoEffect), ran(NoEffect), Consequence{},
		keepName,
	}},
	{GroupingRenamed, Rule{
		"a GroupByKey or CombinePerKey was renamed",
		inferred(Refuses, dataflowMapping), ran(Refuses), ran(Refuses), Consequence{},
		keepName,
	}},
	{NumberedTransformMoved, Rule{
		"several transforms have the same name, and this one now has the number of another one",
		inferred(Misreads, dataflowMapping), ran(Misreads), ran(Misreads), Consequence{},
		ownScope,
	}},
	{NumberedTransformRewired, Rule{
		"several transforms have the same name, and this one has another input: it may have changed places with another one that is otherwise equal",
		inferred(Misreads, dataflowMapping), ran(Misreads), ran(Misreads), Consequence{},
		ownScope,
	}},
	{TransformExchanged, Rule{
		"a transform that keeps state, or leads to one that does, has the input of another one that is otherwise equal: the two may have exchanged their names",
		inferred(Misreads, dataflowMapping), ran(NoEffect), ran(Misreads), Consequence{},
		"keep the name of each transform together with its input",
	}},
	{TransformKindChanged, Rule{
		"the name now belongs to another kind of transform",
		inferred(Refuses, dataflowCheck), inferred(Refuses, asRemoved), inferred(Refuses, asRemoved), Consequence{},
		newStep,
	}},
	{FlinkOperatorChanged, Rule{
		"the input of a transform that keeps state has another number in construction order: with the stock runner its state has another operator id",
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
		"a transform that keeps state shares its input with transforms without state, and these have changed: with the stock runner their operator ids differ only in a counter, which may have changed",
		inferred(NoEffect, dataflowNames), ranAs(LosesState, "in one of the runs all state was kept: the order that the counter follows is not fixed"), ran(NoEffect), Consequence{},
		ownInput,
	}},
	{FlinkOperatorOrder, Rule{
		"a transform that keeps state shares its input with others that keep state, and these have changed: with the stock runner the order of a hash set decides which one gets which state and timers",
		inferred(NoEffect, dataflowNames), ranAs(FailsForever, "in 2 of 3 runs the timers reached the other transform; in the third run nothing was lost"), ran(NoEffect), Consequence{},
		ownInput,
	}},
	{AgentsFlinkOperatorChanged, Rule{
		"with agents-flink the transform has another operator id: it was renamed, or it has neither cells nor timers and its input comes from another transform",
		inferred(NoEffect, dataflowNames), ran(NoEffect), ran(Refuses), Consequence{},
		"keep the scope and the name of a transform that keeps state, and with them the name of its DoFn; keep what a source reads from",
	}},
	{FnChanged, Rule{
		"the code was renamed: a worker finds it in the binary that was staged with the job",
		inferred(NoEffect, goResolves), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid; if the binary of the workers is built separately (--worker_binary), build both from the same source, otherwise bundles fail",
	}},
	{CombineFnChanged, Rule{
		"a CombineFn was renamed: if its code has changed too, it continues with what the old code has accumulated",
		inferred(Mixes, dataflowInFlight), ran(Mixes), ran(Mixes), Consequence{},
		"keep the names of package, type and function; or leave it as it is, and add another one beside it",
	}},
	{FnSignatureChanged, Rule{
		"a function has another signature",
		inferred(NoEffect, dataflowCheck), inferred(NoEffect, goResolves), inferred(NoEffect, goResolves), Consequence{},
		"nothing to avoid: only its inputs, outputs and coders matter",
	}},
	{InputAdded, Rule{
		"a transform has one more main input",
		inferred(NoEffect, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid for a Flatten; a CoGroupByKey with one more input has other coders, which are findings of their own",
	}},
	{InputRemoved, Rule{
		"a transform has one main input fewer",
		inferred(Refuses, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"keep the input, and feed it from a source that has ended",
	}},
	{InputRewired, Rule{
		"an input comes from another transform",
		verified(NoEffect, dataflowInFlight), ran(NoEffect), ran(NoEffect), Consequence{},
		"nothing to avoid; elements that have already passed the changed place do not take the new way",
	}},
	{InputOrderChanged, Rule{
		"inputs or side inputs of one transform, or the readers of its outputs, have changed places: buffered or stored data of one is taken for data of the other",
		inferred(Mixes, goNumbers), ran(Mixes), ran(Mixes), Consequence{},
		"keep the order of inputs, side inputs and outputs, and add new ones at the end",
	}},
	{KeyCoderChanged, Rule{
		"keys are encoded in another way: the state of a key is not found under its new bytes",
		inferred(Refuses, dataflowCoder), ran(LosesState), ran(LosesState), Consequence{},
		newStep,
	}},
	{GroupedCoderChanged, Rule{
		"the elements that a GroupByKey or CombinePerKey buffers are encoded in another way",
		verified(Refuses, dataflowCoder), ran(FailsForever), ran(FailsForever), Consequence{},
		keepCoder,
	}},
	{InputCoderChanged, Rule{
		"elements of an input are encoded in another way",
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
		"a transform has one output fewer",
		inferred(Refuses, dataflowCheck), ran(NoEffect), ran(NoEffect), Consequence{},
		"keep the output and emit nothing to it",
	}},
	{OutputCoderChanged, Rule{
		"elements of an output are encoded in another way, or the outputs have another order",
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
		inferred(Refuses, dataflowCheck), inferred(FailsForever, asSideInput), verified(Refuses, runnerCheckSide), Consequence{},
		newStep,
	}},
	{SideInputRemoved, Rule{
		"a transform has one side input fewer",
		inferred(Refuses, dataflowCheck), inferred(Refuses, noSavepoint), inferred(Refuses, noSavepoint), Consequence{},
		newStep,
	}},
	{SideInputRewired, Rule{
		"a side input comes from another transform: data that was read from it before may stay in use",
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
		"nothing to avoid: treat an empty cell as the first value",
	}},
	{StateRemoved, Rule{
		"a cell was removed: its data stays stored, and is neither read nor cleared",
		inferred(LosesState, noStateCheck), ranAs(NoEffect, "the other cells keep their data"), ranAs(NoEffect, "the other cells keep their data"), Consequence{},
		"keep the field, and clear the cell when its key has an element",
	}},
	{StateRenamed, Rule{
		"a cell has another id: the new one begins empty, and the old one stays stored",
		inferred(LosesState, noStateCheck), ran(LosesState), ran(LosesState), Consequence{},
		"keep the id",
	}},
	{StateKindChanged, Rule{
		"the id now belongs to another kind of cell: the stored bytes are read in another way",
		inferred(Misreads, noStateCheck), ran(Misreads), ran(Misreads), Consequence{},
		newCell,
	}},
	{StateCoderChanged, Rule{
		"the data of a cell is encoded in another way",
		inferred(Refuses, dataflowCoder), ran(Misreads), ran(Misreads), Consequence{},
		newCell,
	}},
	{TimerFamilyAdded, Rule{
		"timers were added to a transform: no timer is set yet",
		inferred(NoEffect, timersByID), inferred(NoEffect, timersByID), inferred(NoEffect, timersByID), Consequence{},
		"nothing to avoid",
	}},
	{SecondTimerFamilyAdded, Rule{
		"a transform has one more timer family, and now has several",
		inferred(NoEffect, timersByID), ranAs(LosesTimers, twoFamilies), ranAs(Refuses, "agents-flink refuses the new job before it submits it"), Consequence{},
		"use one family, and distinguish timers by their tags",
	}},
	{TimerFamilyRemoved, Rule{
		"a timer family was removed: timers that are set cannot be delivered",
		inferred(LosesTimers, timersByID), inferred(FailsForever, "as timer_family_renamed, which was run"), inferred(FailsForever, "as timer_family_renamed, which was run"), Consequence{},
		"keep the family until its last timer has fired",
	}},
	{TimerFamilyRenamed, Rule{
		"a timer family has another id: timers that are set cannot be delivered",
		inferred(LosesTimers, timersByID), ran(FailsForever), ran(FailsForever), Consequence{},
		newFamily,
	}},
	{TimeDomainChanged, Rule{
		"a timer family has another time domain: timers that are set fire in the old one",
		inferred(Mixes, timersByID), ranAs(NoEffect, "timers that were set fired when they were due by event time"), ranAs(NoEffect, "timers that were set fired when they were due by event time"), Consequence{},
		"keep the time domain, and add a family with a new id for the other one",
	}},
	{TimerCoderChanged, Rule{
		"the key or the window of timers is encoded in another way",
		inferred(Refuses, dataflowCoder), ran(FailsForever), ran(FailsForever), Consequence{},
		newStep,
	}},
	{AccumulatorCoderChanged, Rule{
		"the accumulator of a combine is encoded in another way",
		verified(Refuses, dataflowCombine), ranAs(NoEffect, "Flink stores the values, and combines them when the window ends"), ranAs(NoEffect, "Flink stores the values, and combines them when the window ends"), Consequence{},
		newStep,
	}},
	{RestrictionCoderChanged, Rule{
		"the restriction of a splittable DoFn is encoded in another way",
		inferred(Refuses, dataflowCoder), inferred(Misreads, opaque), inferred(Misreads, opaque), Consequence{},
		newStep,
	}},
	{SameBytes, Rule{
		"a coder was renamed and writes the same bytes",
		inferred(Refuses, dataflowCoder), ran(NoEffect), ran(NoEffect), Consequence{},
		keepCoder,
	}},
	{EnvironmentChanged, Rule{
		"the workers run in another kind of environment, which is part of Flink's operator ids",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"keep --environment_type as long as the state is kept; LOOPBACK and EXTERNAL are the same kind",
	}},
	{ParallelismChanged, Rule{
		"the job has another parallelism",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(NoEffect), Consequence{},
		"run the job with agents-flink from its first start, without operator chaining and with a sufficient maximum parallelism",
	}},
	{MaxParallelismChanged, Rule{
		"the job has another maximum parallelism, which decides where a key is stored",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"choose it before the first start, and keep it as long as the state is kept",
	}},
	{ChainingChanged, Rule{
		"operators are chained in another way, which changes the operator id of an Impulse",
		inferred(NoEffect, dataflowWorkers), ran(Refuses), ran(Refuses), Consequence{},
		"keep it as long as the state is kept; without chaining a job can be rescaled",
	}},
}
