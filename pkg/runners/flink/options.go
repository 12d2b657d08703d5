package flink

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
)

// The environments of the workers.
const (
	// Loopback runs the pipeline's functions in the process that submits the job. It is for
	// development: when the process ends, the job fails.
	Loopback = "LOOPBACK"
	// Process runs a worker process next to each task manager, without a container.
	Process = "PROCESS"
	// External gets workers from a worker pool that runs next to each task manager.
	External = "EXTERNAL"
	// Docker runs workers in containers that the task manager starts.
	Docker = "DOCKER"
)

// The defaults of Options.
const (
	// DefaultCheckpointInterval is the default for pipelines with an unbounded source.
	DefaultCheckpointInterval = 10 * time.Second
	// DefaultCheckpointTimeout is longer than the longest activation that RunAgent allows, which
	// is one hour. A checkpoint waits for the open bundle, and Flink aborts a checkpoint that
	// exceeds its timeout.
	DefaultCheckpointTimeout = 70 * time.Minute
	// DefaultBundleTime is short, because the output of a bundle becomes visible when the bundle
	// ends.
	DefaultBundleTime = 100 * time.Millisecond
	// DefaultMaxParallelism is the number of parts into which keyed state is divided.
	DefaultMaxParallelism = 128
)

// maxParallelismLimit is the limit of Flink.
const maxParallelismLimit = 32768

// Options say how a job runs. The zero value of a field stands for its default. Each field but
// Progress has a flag, which its comment names.
type Options struct {
	// Endpoint is the HOST:PORT of Beam's job server for Flink. Required. --endpoint
	Endpoint string
	// JobName is the name that Flink shows. If it is empty, Run generates one. --job_name
	JobName string
	// Environment is Loopback, Process, External or Docker. Required: the SDK's default, Docker,
	// is not chosen silently. --environment_type
	Environment string
	// Master is the HOST:PORT of the REST API of the Flink cluster. The job server submits to
	// that cluster, whatever cluster it was started with. Run then shows the cluster's counts of
	// records and checkpoints, and the failures after which Flink restarts the job. If Master is
	// empty, the job server chooses the cluster. Savepoint needs Master. --flink_master
	Master string
	// EnvironmentConfig depends on the environment. Process: JSON with a "command"; the default
	// is this program, which is its own boot program. External: HOST:PORT of the worker pool.
	// Docker: the image. Loopback: it must be empty. --environment_config
	EnvironmentConfig string
	// WorkerBinary is the program that runs the pipeline's functions, built for the platform of
	// the task managers. The default is the running program. --worker_binary
	WorkerBinary string
	// Async makes Run return when the job is submitted. --async
	Async bool
	// Parallelism is the number of subtasks of each step. 0 leaves it to the job server.
	// --parallelism
	Parallelism int
	// Experiments are sent to the runner and to the workers. --experiments
	Experiments []string
	// RetainDocker keeps the containers of an ended job. --retain_docker_containers
	RetainDocker bool

	// CheckpointInterval is the time from one checkpoint to the next, in whole milliseconds. The
	// default for a pipeline with an unbounded source is DefaultCheckpointInterval. A pipeline of
	// bounded sources has no checkpoints by default, because with checkpoints Flink clears the
	// state of a bounded input before its last timers fire. --flink_checkpoint_interval
	CheckpointInterval time.Duration
	// CheckpointTimeout is how long a checkpoint may take before Flink aborts it.
	// --flink_checkpoint_timeout
	CheckpointTimeout time.Duration
	// BundleTime is the longest time for which a bundle stays open, in whole milliseconds.
	// --flink_bundle_time
	BundleTime time.Duration
	// MaxParallelism bounds the parallelism, 1 to 32768. A savepoint keeps the value of the first
	// start, so it cannot be changed later. --flink_max_parallelism
	MaxParallelism int
	// Chaining lets Flink chain operators into one task. This saves copies between steps that are
	// not fused. But the job can no longer be rescaled, because the address of the Impulse's
	// state then depends on the parallelism. --flink_operator_chaining
	Chaining bool
	// Batch runs a pipeline of bounded sources in Flink's batch mode. Then the elements of a key
	// come in any order, and each key has its own bundle. --flink_batch
	Batch bool
	// Savepoint is the path of a savepoint, or of a retained checkpoint, to start from.
	// --flink_savepoint
	Savepoint string
	// AllowNonRestoredState starts from a savepoint even if it holds state for which the pipeline
	// has no step. It needs AcceptLostState. --flink_allow_non_restored_state
	AllowNonRestoredState bool
	// AcceptLostState confirms that the effects of AllowNonRestoredState are wanted. The state of
	// steps that were removed or renamed is lost. A renamed source either counts as ended (no
	// output, no error), or starts again from its beginning (duplicates).
	// --flink_accept_lost_state
	AcceptLostState bool
	// Extra are further options of Flink's runner, each "name=value". The name is that of the
	// Java getter in lower_snake_case, and the value is JSON or plain text. Flink shows every
	// option in its web page. --flink_option, which may be repeated
	Extra []string

	// Progress is where Run writes the progress of the job, a line every few seconds if something
	// has changed. Nil turns it off. Execute uses the standard error, unless
	// --flink_progress=false is given.
	Progress io.Writer
}

// validate fills in the defaults and checks the options alone.
func (o *Options) validate() error {
	o.Environment = strings.ToUpper(o.Environment)
	if o.Endpoint == "" {
		return errors.New("--endpoint is missing: name the HOST:PORT of a job server of Beam's Flink runner (docs/flink.md starts one)")
	}
	for _, d := range []struct {
		flag  string
		value *time.Duration
		or    time.Duration
	}{
		{"flink_checkpoint_interval", &o.CheckpointInterval, 0},
		{"flink_checkpoint_timeout", &o.CheckpointTimeout, DefaultCheckpointTimeout},
		{"flink_bundle_time", &o.BundleTime, DefaultBundleTime},
	} {
		if *d.value < 0 || *d.value%time.Millisecond != 0 {
			return fmt.Errorf("--%s=%v is not valid: give a positive number of whole milliseconds", d.flag, *d.value)
		}
		if *d.value == 0 {
			*d.value = d.or
		}
	}
	if o.MaxParallelism == 0 {
		o.MaxParallelism = DefaultMaxParallelism
	}
	if o.JobName == "" {
		o.JobName = jobopts.GetJobName()
	}
	o.Parallelism = max(o.Parallelism, 0) // the SDK's flag uses -1 for the job server's default
	switch {
	case o.MaxParallelism < 1 || o.MaxParallelism > maxParallelismLimit:
		return fmt.Errorf("--flink_max_parallelism=%d is not valid: Flink accepts 1 to %d", o.MaxParallelism, maxParallelismLimit)
	case o.Parallelism > o.MaxParallelism:
		return fmt.Errorf("--parallelism=%d is above --flink_max_parallelism=%d: raise the latter before the first start of the job", o.Parallelism, o.MaxParallelism)
	case o.AllowNonRestoredState && !o.AcceptLostState:
		return errors.New("--flink_allow_non_restored_state drops the state of every step that was removed or renamed, and a renamed source either counts as ended or starts again from its beginning: give --flink_accept_lost_state, too, if you accept that")
	case o.AllowNonRestoredState && o.Savepoint == "":
		return errors.New("--flink_allow_non_restored_state needs --flink_savepoint: it says what to do with a savepoint's state")
	case o.Savepoint != "" && !address.MatchString(o.Master):
		return errors.New("--flink_savepoint needs --flink_master=HOST:PORT, the REST address of the cluster: a job server with an embedded cluster ([local]) silently ignores a savepoint and starts without state, and the runner cannot see which cluster a job server has")
	case o.Master != "" && !address.MatchString(o.Master):
		return fmt.Errorf("--flink_master=%s is not valid: give the HOST:PORT of the cluster's REST API, such as 127.0.0.1:8081", o.Master)
	case o.Batch && o.CheckpointInterval > 0:
		return errors.New("--flink_batch excludes --flink_checkpoint_interval: Flink takes no checkpoints in batch mode")
	}
	if err := o.validateEnvironment(); err != nil {
		return err
	}
	_, err := o.extra()
	return err
}

// flagOf names the flag for each option of the Java runner that has one.
var flagOf = map[string]string{
	"allow_non_restored_state":  "--flink_allow_non_restored_state",
	"app_name":                  "--job_name",
	"checkpoint_timeout_millis": "--flink_checkpoint_timeout",
	"checkpointing_interval":    "--flink_checkpoint_interval",
	"experiments":               "--experiments",
	"flink_master":              "--flink_master",
	"go_options":                "the flags of the program",
	"job_name":                  "--job_name",
	"max_bundle_time_mills":     "--flink_bundle_time",
	"max_parallelism":           "--flink_max_parallelism",
	"operator_chaining":         "--flink_operator_chaining",
	"parallelism":               "--parallelism",
	"retain_docker_containers":  "--retain_docker_containers",
	"runner":                    "--runner",
	"savepoint_path":            "--flink_savepoint",
	"streaming":                 "--flink_batch",
}

// address matches HOST:PORT. Flink's runner also has words, such as [local], for clusters that
// end with the job.
var address = regexp.MustCompile(`^[^\s\[\]/:@]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$`)

var optionName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// extra returns the options of Extra with their values.
func (o *Options) extra() (map[string]any, error) {
	values := make(map[string]any, len(o.Extra))
	texts := make(map[string]string, len(o.Extra))
	for _, option := range o.Extra {
		name, text, ok := strings.Cut(option, "=")
		switch first, twice := texts[name]; {
		case !ok || !optionName.MatchString(name):
			return nil, fmt.Errorf("--flink_option=%q is not valid: give name=value, where the name is that of the Java getter in lower case, such as state_backend=rocksdb", name)
		case flagOf[name] != "":
			return nil, fmt.Errorf("--flink_option=%s is set by %s: use that", name, flagOf[name])
		case name == submissionOption:
			return nil, fmt.Errorf("--flink_option=%s is not valid: the runner sends this option itself, with another value for each job", name)
		case looksSecret(name, text):
			return nil, fmt.Errorf("--flink_option=%s looks like a secret, and Flink shows every option in its web page: let the worker read it from its environment or from a file", name)
		case twice && first != text:
			return nil, fmt.Errorf("--flink_option=%s is given twice, with different values", name)
		}
		texts[name] = text
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		values[name] = value
	}
	return values, nil
}

var (
	wordBreak   = regexp.MustCompile(`[^A-Za-z0-9]+|([a-z0-9])([A-Z])`)
	reference   = regexp.MustCompile(`^(env|file):`)
	userInfo    = regexp.MustCompile(`://[^/@\s]*:[^/@\s]+@`)
	inValue     = regexp.MustCompile(`(?i)(^|[\s?&;,])(password|passwd|pwd|secret|token|access_token|api_?key)=[^\s&;,]|\bBearer [A-Za-z0-9]|-----BEGIN [A-Z ]*PRIVATE KEY`)
	secretWords = []string{"password", "passwords", "passwd", "pwd", "passphrase", "secret", "secrets", "token", "credential", "credentials", "apikey", "authorization"}
	secretKeys  = []string{"api", "private", "access", "signing", "secret", "encryption", "account", "hmac"}
	// notSecret are endings of names that only lead to a secret.
	notSecret = []string{"file", "path", "dir", "name", "url", "env"}
)

// looksSecret reports whether an option with this name and value looks like a secret. These do
// not: a switch, a reference such as env:NAME, a place such as token_file, and a number whose
// name does not end with the word, such as token_limit.
func looksSecret(name, value string) bool {
	if userInfo.MatchString(value) || inValue.MatchString(value) {
		return true
	}
	if value == "" || value == "true" || value == "false" || reference.MatchString(value) {
		return false
	}
	words := strings.Split(strings.ToLower(wordBreak.ReplaceAllString(name, "${1}_${2}")), "_")
	last := len(words) - 1
	if slices.Contains(notSecret, words[last]) {
		return false
	}
	for i, w := range words {
		isKey := i > 0 && (w == "key" || w == "keys") && slices.Contains(secretKeys, words[i-1])
		if slices.Contains(secretWords, w) || isKey {
			return i == last || !isQuantity(value)
		}
	}
	return false
}

// isQuantity reports whether a value is a number or a duration.
func isQuantity(value string) bool {
	_, number := strconv.ParseFloat(value, 64)
	_, duration := time.ParseDuration(value)
	return number == nil || duration == nil
}
