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
// The command line has the same: beamagents compat check OLD NEW, and compat lint FILE.
//
// # Behaviour
//
// A [Fingerprint] holds what a runner knows of a pipeline by name, by number or by type,
// and nothing else: the names of the transforms with their nesting, the coders whole,
// state and timers, inputs and outputs in order, windowing. It holds no configuration and
// no data, so that two deployments of one program have one fingerprint. A runner may add
// the [Platform] of the job. The JSON form is indented, sorted, and the same bytes
// whenever the pipeline is the same.
//
// [Check] compares two fingerprints and returns a [Finding] for each difference, in order
// of transform and [Kind]. The [Rule] of a kind has a [Consequence] for each runner: the
// effect, and whether it was run, verified in a source, or inferred from one. A finding is
// unsafe where a runner would refuse, lose or misread something, or where the new job
// would fail for ever. Equal fingerprints have no findings.
//
// [Lint] looks at one fingerprint and returns what a runner accepts and then breaks, as
// the job runs or with the next update.
//
// [Read] is strict. Another format, a member that it does not know and anything that
// contradicts itself are errors. It reads fingerprints of earlier versions: what they do
// not hold is not compared.
//
// # Limits
//
// A fingerprint says nothing of what the code does: a DoFn that reads its own state
// another way has the same one. It does not see inside of a coder: a new field of a
// message changes no coder, and neither does a field that was given another meaning.
//
// Transforms of one name are numbered ('1, '2) in construction order, which the SDK
// alone knows. Two that were exchanged and are equal in all that a fingerprint holds
// cannot be told apart, and their state is exchanged without a finding. Give each
// transform that keeps state a scope of its own.
//
// Transforms that expand to several, such as a CoGroupByKey of several inputs and a
// Reshuffle, have parts that the SDK names after the number of the edge (e7_gbk): a
// transform that is added before them renames those parts.
//
// With Flink's stock runner, steps that read one PCollection share an operator id but for
// a counter whose order nobody can foresee. Check reports when these steps change, not
// when their order does. Lint reports that there are several.
//
// # Differences
//
// Dataflow has the last word when it checks a replacement job, and checks more, such as
// sources and zones; its consequences were not run. Those of Flink were, where a rule says
// so, by the upgrade matrix in pkg/compat/graph/upgrade. Prism updates no job, and is in
// the rules of Lint alone.
package compat
