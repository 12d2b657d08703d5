// Package compat tells whether a streaming job can be updated in place. It compares the
// fingerprints of two pipelines, and says for each difference what a runner would do with the
// state and the data of the running job.
//
//	old, err := compat.Read(oldFile)
//	now, err := compat.Read(newFile)
//	for _, f := range compat.Check(old, now) {
//		fmt.Println(f)
//	}
//
// Package graph takes the fingerprint of a *beam.Pipeline; this package links no Beam. The
// commands beamagents compat check OLD NEW and beamagents compat lint FILE do the same.
//
// # Behaviour
//
// A [Fingerprint] holds only what a runner knows of a pipeline by name, number or type: the names
// of the transforms with their scopes, the complete coders, state and timers, inputs and outputs
// in order, and windowing. It holds neither configuration nor data, so two deployments of one
// program have the same fingerprint. A runner may add the [Platform] of the job. The JSON form is
// indented and sorted, and equal pipelines have equal bytes.
//
// [Check] compares two fingerprints and returns a [Finding] for each difference, ordered by
// transform and [Kind]. The [Rule] of a kind has a [Consequence] for each runner: the effect, and
// whether it was run, verified in a source, or inferred from one. A finding is unsafe if a runner
// would refuse, lose or misread something, or if the new job would fail for ever. Equal
// fingerprints have no findings.
//
// [Lint] looks at one fingerprint. It returns what a runner accepts but later breaks, while the
// job runs or at the next update.
//
// [Read] is strict. It returns an error for another format, an unknown member, and a fingerprint
// that contradicts itself. It reads fingerprints of earlier versions; Check does not compare what
// they lack.
//
// # Limits
//
// A fingerprint does not describe what code does: if a DoFn begins to interpret its state
// differently, the fingerprint stays the same. It does not describe the messages within a coder:
// a new field does not change it, and neither does a new meaning of a field.
//
// Transforms of one name are numbered ('1, '2) in construction order, which only the SDK knows.
// If two such transforms swap places and are equal in everything that a fingerprint holds, their
// state is exchanged without a finding. Give each transform that keeps state its own scope.
//
// Some transforms expand to several, such as a Reshuffle or a CoGroupByKey of several inputs. The
// SDK names their parts after the number of the edge (e7_gbk), so a transform that is added
// before them renames the parts.
//
// With Flink's stock runner, steps that read the same PCollection share an operator id, except
// for a counter whose order cannot be predicted. Check reports when these steps change, but
// cannot see when their order changes. Lint reports that there are several such steps.
//
// # Differences from a runner's own check
//
// Dataflow decides when it checks a replacement job, and checks more, such as sources and zones.
// The consequences for Dataflow were not run. Those for Flink were run where a rule says so, by
// the upgrade matrix in pkg/compat/graph/upgrade. Prism cannot update a job, so only the rules of
// Lint have consequences for it.
package compat
