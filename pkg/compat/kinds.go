package compat

import "slices"

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
	// GroupingRenamed: a GroupByKey or CombinePerKey was renamed, which on Flink is
	// its operator id.
	GroupingRenamed Kind = "grouping_renamed"
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
	// FlinkOperatorChanged: its input has another number in construction order, of which
	// Flink's stock runner makes the operator id.
	FlinkOperatorChanged Kind = "flink_operator_changed"
	// FlinkOperatorExchanged: the same, and the number was that of another transform that
	// keeps state.
	FlinkOperatorExchanged Kind = "flink_operator_exchanged"
	// FlinkTransformChanged: it has timers or side inputs and another number in
	// construction order, under which Flink's stock runner stores its timers.
	FlinkTransformChanged Kind = "flink_transform_changed"
	// FlinkOperatorShared: it keeps state and reads a PCollection that others read, too,
	// and of these others those that keep nothing are not those of before.
	FlinkOperatorShared Kind = "flink_operator_shared"
	// FlinkOperatorOrder: the same, and those that keep something are not those of before.
	FlinkOperatorOrder Kind = "flink_operator_order"
	// AgentsFlinkOperatorChanged: it has another name, or is a source, or has side inputs
	// alone, and its input comes from elsewhere. The runner agents-flink makes operator ids
	// of these names.
	AgentsFlinkOperatorChanged Kind = "agents_flink_operator_changed"
	FnChanged                  Kind = "fn_changed"
	CombineFnChanged           Kind = "combine_fn_changed"
	FnSignatureChanged         Kind = "fn_signature_changed"
	InputAdded                 Kind = "input_added"
	InputRemoved               Kind = "input_removed"
	InputRewired               Kind = "input_rewired"
	// InputOrderChanged: an input comes from where another one of the same transform came
	// from, or from another output of the transform that it came from, and that other one
	// has moved, too.
	InputOrderChanged Kind = "input_order_changed"
	// KeyCoderChanged is about the key of an input of a stateful transform.
	KeyCoderChanged Kind = "key_coder_changed"
	// GroupedCoderChanged is about what a GroupByKey or CombinePerKey holds back.
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
	// TimerFamilyAdded: it had no timers.
	TimerFamilyAdded Kind = "timer_family_added"
	// SecondTimerFamilyAdded: it has more than one family now.
	SecondTimerFamilyAdded  Kind = "second_timer_family_added"
	TimerFamilyRemoved      Kind = "timer_family_removed"
	TimerFamilyRenamed      Kind = "timer_family_renamed"
	TimeDomainChanged       Kind = "time_domain_changed"
	TimerCoderChanged       Kind = "timer_coder_changed"
	AccumulatorCoderChanged Kind = "accumulator_coder_changed"
	RestrictionCoderChanged Kind = "restriction_coder_changed"
	// SameBytes: a coder was renamed and writes the same bytes, as those of []byte
	// and string do.
	SameBytes Kind = "same_bytes"
	// Those that follow are about the platform of the job, and have no transform.
	EnvironmentChanged    Kind = "environment_changed"
	ParallelismChanged    Kind = "parallelism_changed"
	MaxParallelismChanged Kind = "max_parallelism_changed"
	ChainingChanged       Kind = "chaining_changed"
)

// Kinds returns every kind of Check, in order.
func Kinds() []Kind { return kindsOf(rules) }

func kindsOf(rules []kindRule) []Kind {
	kinds := make([]Kind, len(rules))
	for i, r := range rules {
		kinds[i] = r.kind
	}
	return kinds
}

// RuleOf returns what is known of k, and whether k is a kind of Check or of Lint.
func RuleOf(k Kind) (Rule, bool) {
	for _, all := range [][]kindRule{rules, lintRules} {
		if i := slices.IndexFunc(all, func(r kindRule) bool { return r.kind == k }); i >= 0 {
			return all[i].Rule, true
		}
	}
	return Rule{}, false
}
