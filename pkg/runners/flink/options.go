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

// The environments, in which the workers run.
const (
	// Loopback runs the pipeline's functions in the process that submits the job. It is for
	// development: when the process ends, the job fails.
	Loopback = "LOOPBACK"
	// Process runs a worker process beside each task manager, without a container.
	Process = "PROCESS"
	// External asks a worker pool, which runs beside each task manager, for workers.
	External = "EXTERNAL"
	// Docker runs workers in containers that the task manager starts.
	Docker = "DOCKER"
)

// Defaults of Options.
const (
	// DefaultCheckpointInterval is for pipelines with an unbounded source.
	DefaultCheckpointInterval = 10 * time.Second
	// DefaultCheckpointTimeout is above the longest activation (one hour) that RunAgent
	// takes: a checkpoint waits for the bundle that is open, and Flink gives up on a
	// checkpoint that exceeds it.
	DefaultCheckpointTimeout = 70 * time.Minute
	// DefaultBundleTime is short since a bundle's output is seen when the bundle ends.
	DefaultBundleTime = 100 * time.Millisecond
	// DefaultMaxParallelism is the number of parts that keyed state is cut into.
	DefaultMaxParallelism = 128
)

// maxParallelismLimit is Flink's own.
const maxParallelismLimit = 32768

// Options say how a job runs. The zero value of a field chooses the default. Each field
// but Progress has a flag, named in its comment.
type Options struct {
	// Endpoint is HOST:PORT of Beam's job server for Flink. Required. --endpoint
	Endpoint string
	// JobName is the name that Flink shows. Run makes one up if it is empty. --job_name
	JobName string
	// Environment is one of Loopback, Process, External, Docker. Required: the SDK's default
	// of Docker is not taken silently. --environment_type
	Environment string
	// Master is HOST:PORT of the REST API of the Flink cluster. The job server submits to
	// that cluster whatever it was started with, and Run shows the cluster's counts of
	// records and checkpoints, and the failures after which Flink starts the job again.
	// Empty leaves the cluster to the job server. Savepoint needs it. --flink_master
	Master string
	// EnvironmentConfig is for Process JSON with a "command" (default: this program, which
	// is its own boot program), for External HOST:PORT of the worker pool, for Docker the
	// image. Loopback takes none. --environment_config
	EnvironmentConfig string
	// WorkerBinary is the program that runs the pipeline's functions, built for the task
	// managers' platform. The default is the running program. --worker_binary
	WorkerBinary string
	// Async returns when the job is submitted. --async
	Async bool
	// Parallelism is the number of subtasks of each step. 0 leaves it to the job server.
	// --parallelism
	Parallelism int
	// Experiments are sent to the runner and to the workers. --experiments
	Experiments []string
	// RetainDocker keeps the containers of an ended job. --retain_docker_containers
	RetainDocker bool

	// CheckpointInterval is the time from one checkpoint to the next, in whole
	// milliseconds. The default is DefaultCheckpointInterval for a pipeline with an
	// unbounded source, and no checkpoints for one whose sources are all bounded: with
	// checkpoints, Flink clears the state of a bounded input before its last timers fire.
	// --flink_checkpoint_interval
	CheckpointInterval time.Duration
	// CheckpointTimeout is how long a checkpoint may take before Flink gives it up.
	// --flink_checkpoint_timeout
	CheckpointTimeout time.Duration
	// BundleTime is the longest time for which a bundle stays open, in whole milliseconds.
	// --flink_bundle_time
	BundleTime time.Duration
	// MaxParallelism bounds the parallelism for the life of the job's state, 1 to 32768. A
	// savepoint keeps the value of the first start. --flink_max_parallelism
	MaxParallelism int
	// Chaining lets Flink chain operators into one task. It saves copies between steps that
	// are not fused, but the job can no longer be rescaled: the address of the Impulse's
	// state then depends on the parallelism. --flink_operator_chaining
	Chaining bool
	// Batch runs a pipeline of bounded sources in Flink's batch mode. The elements of a key
	// then come in no order at all, and each key has a bundle of its own. --flink_batch
	Batch bool
	// Savepoint is the path of a savepoint, or of a retained checkpoint, to start from.
	// --flink_savepoint
	Savepoint string
	// AllowNonRestoredState starts from a savepoint even if it holds state that no step of
	// the pipeline takes. It needs AcceptLostState. --flink_allow_non_restored_state
	AllowNonRestoredState bool
	// AcceptLostState says that you know what AllowNonRestoredState does: the state of
	// steps that were removed or renamed is dropped for ever, and a source that was
	// renamed is taken for one that has ended (no output, no error), or starts again from
	// its beginning beside what it has already given (duplicates). --flink_accept_lost_state
	AcceptLostState bool
	// Extra are further options of Flink's runner, each "name=value", where the name is
	// the Java getter's in lower_snake_case and the value is JSON or plain text. Flink
	// shows every option in its web page. --flink_option, which may be repeated
	Extra []string

	// Progress is where Run writes how the job gets on, a line every few seconds when
	// something has changed. Nil writes nothing. The flags choose the standard error,
	// unless --flink_progress=false.
	Progress io.Writer
}

// validate fills in the defaults, and finds what is wrong in the options alone.
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
	o.Parallelism = max(o.Parallelism, 0) // the SDK's flag has -1 for the job server's default
	switch {
	case o.MaxParallelism < 1 || o.MaxParallelism > maxParallelismLimit:
		return fmt.Errorf("--flink_max_parallelism=%d is not valid: Flink takes 1 to %d", o.MaxParallelism, maxParallelismLimit)
	case o.Parallelism > o.MaxParallelism:
		return fmt.Errorf("--parallelism=%d is above --flink_max_parallelism=%d: raise the latter, before the job's first start", o.Parallelism, o.MaxParallelism)
	case o.AllowNonRestoredState && !o.AcceptLostState:
		return errors.New("--flink_allow_non_restored_state drops the state of every step that was removed or renamed, and a renamed source is taken for one that has ended or starts again from its beginning: give --flink_accept_lost_state, too, if that is what you want")
	case o.AllowNonRestoredState && o.Savepoint == "":
		return errors.New("--flink_allow_non_restored_state needs --flink_savepoint: it says what to do with a savepoint's state")
	case o.Savepoint != "" && !address.MatchString(o.Master):
		return errors.New("--flink_savepoint needs --flink_master=HOST:PORT, the REST address of the cluster: a job server with an embedded cluster ([local]) ignores a savepoint without a word and starts from nothing, and the runner cannot see which cluster a job server has")
	case o.Master != "" && !address.MatchString(o.Master):
		return fmt.Errorf("--flink_master=%s is not valid: give the HOST:PORT of the cluster's REST API, such as 127.0.0.1:8081", o.Master)
	case o.Batch && o.CheckpointInterval > 0:
		return errors.New("--flink_batch takes no --flink_checkpoint_interval: Flink takes no checkpoints in batch mode")
	}
	if err := o.validateEnvironment(); err != nil {
		return err
	}
	_, err := o.extra()
	return err
}

// Options of the Java runner that have a flag here, or a field of the SDK.
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

// address is HOST:PORT. Flink's runner has other words, such as [local], for clusters that
// end with the job.
var address = regexp.MustCompile(`^[^\s\[\]/:@]+:[0-9]{1,5}$|^\[[0-9a-fA-F:]+\]:[0-9]{1,5}$`)

var optionName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// extra are the options of Extra with their values.
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
	// notSecret end the names of what only leads to a secret.
	notSecret = []string{"file", "path", "dir", "name", "url", "env"}
)

// looksSecret tells whether an option with this name and value is a secret. A switch, a
// reference such as env:NAME, and a place such as token_file are none, nor is a number
// under a name that does not end with the word, such as token_limit.
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

// isQuantity tells whether a value is a number or a duration.
func isQuantity(value string) bool {
	_, number := strconv.ParseFloat(value, 64)
	_, duration := time.ParseDuration(value)
	return number == nil || duration == nil
}
