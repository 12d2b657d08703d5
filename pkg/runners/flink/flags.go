package flink

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// repeated is a flag that can be given more than once.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, " ") }

// Set implements flag.Value.
func (r *repeated) Set(s string) error {
	*r = append(*r, s)
	return nil
}

var (
	checkpointIntervalFlag = flag.Duration("flink_checkpoint_interval", 0, "Time between checkpoints. The default is 10s for a pipeline with an unbounded source, and no checkpoints for others.")
	checkpointTimeoutFlag  = flag.Duration("flink_checkpoint_timeout", DefaultCheckpointTimeout, "How long a checkpoint may take.")
	bundleTimeFlag         = flag.Duration("flink_bundle_time", DefaultBundleTime, "How long a bundle stays open at most.")
	maxParallelismFlag     = flag.Int("flink_max_parallelism", DefaultMaxParallelism, "Upper bound of the parallelism for the life of the job's state.")
	chainingFlag           = flag.Bool("flink_operator_chaining", false, "Chain operators. A job with chaining cannot be rescaled.")
	batchFlag              = flag.Bool("flink_batch", false, "Run a pipeline of bounded sources in batch mode: the elements of a key come in no order.")
	masterFlag             = flag.String("flink_master", "", "HOST:PORT of the REST API of the Flink cluster. The default is the job server's cluster.")
	savepointFlag          = flag.String("flink_savepoint", "", "Savepoint or retained checkpoint to start from.")
	nonRestoredFlag        = flag.Bool("flink_allow_non_restored_state", false, "Start even if the savepoint holds state that no step takes. Needs --flink_accept_lost_state.")
	acceptLostFlag         = flag.Bool("flink_accept_lost_state", false, "Accept that --flink_allow_non_restored_state drops state, and that renamed sources end or start again.")
	progressFlag           = flag.Bool("flink_progress", true, "Show on the standard error how the job gets on.")
	optionFlag             repeated
)

func init() {
	flag.Var(&optionFlag, "flink_option", "name=value of an option of Beam's Flink runner, the name as the Java getter in lower_snake_case. May be repeated. Flink shows it in its web page.")
}

// ownFlags are the flags above. A flag of the program may begin with the same words.
var ownFlags = map[string]bool{
	"flink_accept_lost_state": true, "flink_allow_non_restored_state": true, "flink_batch": true, "flink_bundle_time": true,
	"flink_checkpoint_interval": true, "flink_checkpoint_timeout": true, "flink_master": true, "flink_max_parallelism": true,
	"flink_operator_chaining": true, "flink_option": true, "flink_progress": true, "flink_savepoint": true,
}

// fromFlags returns the options of the command line. It also reads the flags that the SDK defines
// for all runners.
func fromFlags() (Options, error) {
	o := Options{
		Endpoint:              *jobopts.Endpoint,
		JobName:               jobopts.GetJobName(),
		Environment:           *jobopts.EnvironmentType,
		EnvironmentConfig:     *jobopts.EnvironmentConfig,
		WorkerBinary:          *jobopts.WorkerBinary,
		Async:                 *jobopts.Async,
		Parallelism:           *jobopts.Parallelism,
		Experiments:           jobopts.GetExperiments(),
		RetainDocker:          *jobopts.RetainDockerContainers,
		CheckpointInterval:    *checkpointIntervalFlag,
		CheckpointTimeout:     *checkpointTimeoutFlag,
		BundleTime:            *bundleTimeFlag,
		MaxParallelism:        *maxParallelismFlag,
		Chaining:              *chainingFlag,
		Batch:                 *batchFlag,
		Master:                *masterFlag,
		Savepoint:             *savepointFlag,
		AllowNonRestoredState: *nonRestoredFlag,
		AcceptLostState:       *acceptLostFlag,
		Extra:                 optionFlag,
	}
	if *progressFlag {
		o.Progress = os.Stderr
	}
	// A zero in Options stands for the default. On the command line it is an error.
	for name, value := range map[string]time.Duration{"flink_checkpoint_timeout": o.CheckpointTimeout, "flink_bundle_time": o.BundleTime} {
		if value == 0 {
			return Options{}, fmt.Errorf("--%s=0 is not valid: give a positive duration", name)
		}
	}
	// The SDK uses -1 for the parallelism of the job server.
	if o.Parallelism == 0 || o.Parallelism < -1 {
		return Options{}, fmt.Errorf("--parallelism=%d is not valid: give 1 or more, or leave it out for the job server's default", o.Parallelism)
	}
	return o, nil
}
