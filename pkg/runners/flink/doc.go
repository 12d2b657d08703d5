// Package flink runs Beam Go pipelines on Apache Flink through Beam's job server, with
// options that keep what a job has counted and ids that survive a change of the pipeline.
//
//	import _ "github.com/beamagents/beamagents-go/pkg/runners/flink"
//
//	program --runner=agents-flink --endpoint=HOST:PORT --environment_type=LOOPBACK
//
// # Behaviour
//
// The runner takes any Beam Go pipeline. Compared with the SDK's own Flink runner it
//
//   - sends Flink's options, with defaults under which no element is lost at a
//     checkpoint (see Options),
//   - names transforms and PCollections after the steps of the program, so that a step
//     that is inserted leaves the state and the timers of the others where they are,
//   - refuses before the submission what Flink would run into a hang or a loss,
//   - is the boot program of its own workers with --environment_type=PROCESS, and leaves
//     no worker process behind,
//   - shows on the terminal how the job gets on, and names the step that failed.
//
// # Limits
//
// The job server and the cluster are Beam's and Flink's. docs/flink.md says how to start
// them, what was run with which versions, and what does not work there.
package flink
