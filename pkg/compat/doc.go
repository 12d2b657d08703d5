// Package compat tells whether a streaming job can be updated in place: it compares the
// fingerprints of two pipelines and says, of each difference, what a runner would do
// with the state and the data of the running job.
//
//	old, err := compat.Read(oldFile)
//	now, err := compat.Read(newFile)
//	for _, f := range compat.Check(old, now) {
//		fmt.Println(f)
//	}
//
// Package graph takes the fingerprint of a *beam.Pipeline; this package links no Beam.
// The command line has the same check: beamagents compat check OLD NEW.
//
// # Behaviour
//
// A [Fingerprint] holds what a runner knows of a pipeline by name or by type, and
// nothing else: the names of the transforms with their nesting, the coders whole, state
// and timers, inputs and outputs in order, windowing. It holds no configuration and no
// data, so that two deployments of one program have one fingerprint. Its JSON is
// indented, sorted, and the same bytes whenever the pipeline is the same.
//
// [Check] compares two and returns a [Finding] for each difference, in order of
// transform and [Kind]. Every kind says for Dataflow and for Flink what would happen,
// where that is known from, and whether it was verified there or is inferred. A finding
// is unsafe where either of the two would refuse, lose or misread something. Equal
// fingerprints have no findings.
//
// [Read] is strict. Another format, a member that it does not know and anything that
// contradicts itself are errors.
//
// # Limits
//
// A fingerprint says nothing of what the code does: a DoFn that reads its own state
// another way has the same one. It does not see inside of a coder: a new field of a
// message changes no coder, and neither does a field that was given another meaning.
//
// Transforms of one name are numbered ('1, '2) in construction order, which the SDK
// alone knows. Two that were exchanged and are equal in all that a fingerprint holds
// cannot be told apart; their state is exchanged without a word. Give them names.
//
// Transforms that expand to several, such as a CoGroupByKey of several inputs and a
// Reshuffle, have parts that the SDK names after the number of the edge (e7_gbk): a
// transform that is added before them renames those parts.
//
// On Flink, steps that read one PCollection share an operator id but for a counter whose
// order nobody can foresee. Check reports when these steps change, not when their order
// does. Give each DoFn with state an input of its own.
//
// # Differences
//
// Dataflow has the last word when it checks a replacement job, and checks more, such as
// sources and zones. Flink checks operator ids and serializers as it restores, and
// nothing that is inside of a Go coder. Other runners are not considered.
package compat
