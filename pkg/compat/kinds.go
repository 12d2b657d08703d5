package compat

import "slices"

// Kind is a kind of difference or of problem.
type Kind string

// The closed set of kinds of Check, in the order in which Check reports them for a transform.
const (
	TransformAdded           Kind = "transform_added"
	StatefulTransformAdded   Kind = "stateful_transform_added"
	TransformRemoved         Kind = "transform_removed"
	StatefulTransformRemoved Kind = "stateful_transform_removed"
	TransformRenamed         Kind = "transform_renamed"
	StatefulTransformRenamed Kind = "stateful_transform_renamed"
	// GroupingRenamed: a GroupByKey or CombinePerKey was renamed. On Flink the name is its
	// operator id.
	GroupingRenamed Kind = "grouping_renamed"
	// NumberedTransformMoved: one of several transforms with the same name now has the number
	// that another one had.
	NumberedTransformMoved Kind = "numbered_transform_moved"
	// NumberedTransformRewired: one of several transforms with the same name has another input,
	// so it may have swapped places with one that looks the same.
	NumberedTransformRewired Kind = "numbered_transform_rewired"
	// TransformExchanged: a transform that keeps state, or leads to one that does, has the former
	// input of a transform that is otherwise equal, and that has moved, too.
	TransformExchanged   Kind = "transform_exchanged"
	TransformKindChanged Kind = "transform_kind_changed"
	// FlinkOperatorChanged: the input of the transform has another number in construction order,
	// from which Flink's stock runner makes the operator id.
	FlinkOperatorChanged Kind = "flink_operator_changed"
	// FlinkOperatorExchanged: like FlinkOperatorChanged, and the number was that of another
	// transform that keeps state.
	FlinkOperatorExchanged Kind = "flink_operator_exchanged"
	// FlinkTransformChanged: a transform with timers or side inputs has another number in
	// construction order, under which Flink's stock runner stores its timers.
	FlinkTransformChanged Kind = "flink_transform_changed"
	// FlinkOperatorShared: a transform that keeps state reads a PCollection that other transforms
	// read, too, and among these others those that keep nothing have changed.
	FlinkOperatorShared Kind = "flink_operator_shared"
	// FlinkOperatorOrder: like FlinkOperatorShared, but those that keep something have changed.
	FlinkOperatorOrder Kind = "flink_operator_order"
	// AgentsFlinkOperatorChanged: a transform has another name; or it is a source or has only
	// side inputs, and its input comes from elsewhere. The runner agents-flink makes operator ids
	// from these names.
	AgentsFlinkOperatorChanged Kind = "agents_flink_operator_changed"
	FnChanged                  Kind = "fn_changed"
	CombineFnChanged           Kind = "combine_fn_changed"
	FnSignatureChanged         Kind = "fn_signature_changed"
	InputAdded                 Kind = "input_added"
	InputRemoved               Kind = "input_removed"
	InputRewired               Kind = "input_rewired"
	// InputOrderChanged: an input has the former source of another input of the same transform,
	// or another output of the transform it came from, and the other input has moved, too.
	InputOrderChanged Kind = "input_order_changed"
	// KeyCoderChanged: the key of an input of a stateful transform has another coder.
	KeyCoderChanged Kind = "key_coder_changed"
	// GroupedCoderChanged: the elements that a GroupByKey or CombinePerKey buffers have another
	// coder.
	GroupedCoderChanged Kind = "grouped_coder_changed"
	InputCoderChanged   Kind = "input_coder_changed"
	InputTypeChanged    Kind = "input_type_changed"
	OutputAdded         Kind = "output_added"
	OutputRemoved       Kind = "output_removed"
	OutputCoderChanged  Kind = "output_coder_changed"
	OutputTypeChanged   Kind = "output_type_changed"
	WindowingChanged    Kind = "windowing_changed"
	SideInputAdded      Kind = "side_input_added"
	SideInputRemoved    Kind = "side_input_removed"
	SideInputRewired    Kind = "side_input_rewired"
	SideInputChanged    Kind = "side_input_changed"
	StateAdded          Kind = "state_added"
	StateRemoved        Kind = "state_removed"
	StateRenamed        Kind = "state_renamed"
	StateKindChanged    Kind = "state_kind_changed"
	StateCoderChanged   Kind = "state_coder_changed"
	// TimerFamilyAdded: the transform had no timers.
	TimerFamilyAdded Kind = "timer_family_added"
	// SecondTimerFamilyAdded: the transform now has more than one timer family.
	SecondTimerFamilyAdded  Kind = "second_timer_family_added"
	TimerFamilyRemoved      Kind = "timer_family_removed"
	TimerFamilyRenamed      Kind = "timer_family_renamed"
	TimeDomainChanged       Kind = "time_domain_changed"
	TimerCoderChanged       Kind = "timer_coder_changed"
	AccumulatorCoderChanged Kind = "accumulator_coder_changed"
	RestrictionCoderChanged Kind = "restriction_coder_changed"
	// SameBytes: a coder was renamed but writes the same bytes, as those of []byte and string do.
	SameBytes Kind = "same_bytes"
	// The following kinds are about the platform of the job; their findings name no transform.
	EnvironmentChanged    Kind = "environment_changed"
	ParallelismChanged    Kind = "parallelism_changed"
	MaxParallelismChanged Kind = "max_parallelism_changed"
	ChainingChanged       Kind = "chaining_changed"
)

// Kinds returns all kinds of Check, in order.
func Kinds() []Kind { return kindsOf(rules) }

func kindsOf(rules []kindRule) []Kind {
	kinds := make([]Kind, len(rules))
	for i, r := range rules {
		kinds[i] = r.kind
	}
	return kinds
}

// RuleOf returns the rule for k. ok is false if k is not a kind of Check or of Lint.
func RuleOf(k Kind) (Rule, bool) {
	for _, all := range [][]kindRule{rules, lintRules} {
		if i := slices.IndexFunc(all, func(r kindRule) bool { return r.kind == k }); i >= 0 {
			return all[i].Rule, true
		}
	}
	return Rule{}, false
}
