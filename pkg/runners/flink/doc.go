// Package flink is a Beam runner, agents-flink, that runs Go pipelines on Apache Flink through
// Beam's job server. Its defaults avoid the losses of Beam's own runner at checkpoints, and its
// ids let a job keep its state when the pipeline changes.
//
//	import _ "github.com/beamagents/beamagents-go/pkg/runners/flink"
//
//	program --runner=agents-flink --endpoint=HOST:PORT --environment_type=LOOPBACK
//
// # Behaviour
//
// The runner takes any Beam Go pipeline. It differs from the SDK's own Flink runner in these
// points:
//
//   - It sends options to Flink, with defaults under which no element is lost at a checkpoint;
//     see [Options].
//   - It names transforms and PCollections after the steps of the program. So inserting a step
//     keeps the state and the timers of the other steps.
//   - It refuses, before the submission, pipelines that would hang or lose data on Flink.
//   - With --environment_type=PROCESS it is the boot program of its own workers, and leaves no
//     worker processes behind.
//   - It shows the progress of the job on the terminal, and names the step that failed.
//
// # Limits
//
// The job server is Beam's, and the cluster is Flink's. docs/flink.md says how to start them,
// which versions were tested, and what does not work with them.
package flink
