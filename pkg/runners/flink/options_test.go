package flink

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	pipepb "github.com/apache/beam/sdks/v2/go/pkg/beam/model/pipeline_v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
)

func wantError(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
}

func loopback() Options {
	return Options{Endpoint: "127.0.0.1:1", Environment: Loopback, JobName: "job"}
}

func TestDefaults(t *testing.T) {
	always := map[string]any{"streaming": true, "max_parallelism": 128, "operator_chaining": false, "parallelism": -1, "max_bundle_time_mills": int64(100)}
	checkpoints := map[string]any{
		"checkpointing_interval": int64(10000), "checkpoint_timeout_millis": int64(70 * 60 * 1000), "finish_bundle_before_checkpointing": true,
		"externalized_checkpoints_enabled": true, "retain_externalized_checkpoints_on_cancellation": true,
	}
	merge := func(parts ...map[string]any) map[string]any {
		all := map[string]any{}
		for _, m := range parts {
			maps.Copy(all, m)
		}
		return all
	}
	for name, test := range map[string]struct {
		endless bool
		set     func(*Options)
		want    map[string]any
	}{
		"bounded sources":         {false, func(*Options) {}, always},
		"unbounded source":        {true, func(*Options) {}, merge(always, checkpoints)},
		"bounded and checkpoints": {false, func(o *Options) { o.CheckpointInterval = time.Second }, merge(always, checkpoints, map[string]any{"checkpointing_interval": int64(1000)})},
		"batch":                   {false, func(o *Options) { o.Batch = true }, map[string]any{"streaming": false, "max_parallelism": 128, "operator_chaining": false, "parallelism": -1}},
		"savepoint": {true, func(o *Options) { o.Savepoint, o.Master = "file:///s", "127.0.0.1:8081" },
			merge(always, checkpoints, map[string]any{"savepoint_path": "file:///s", "allow_non_restored_state": false, "flink_master": "127.0.0.1:8081"})},
		"scaled": {false, func(o *Options) { o.Parallelism, o.MaxParallelism, o.Chaining = 4, 256, true },
			merge(always, map[string]any{"parallelism": 4, "max_parallelism": 256, "operator_chaining": true})},
	} {
		t.Run(name, func(t *testing.T) {
			build := bounded
			if test.endless {
				build = unboundedPipeline
			}
			o := loopback()
			test.set(&o)
			if err := o.validate(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, o.javaOptions(marshalled(t, build))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// Flink gives up on a checkpoint that exceeds its timeout, and a checkpoint waits for the
// activations of the open bundle, of which one may take an hour.
func TestCheckpointsOutlastAnActivation(t *testing.T) {
	const longestActivation = time.Hour // transforms.AgentParams.ActivationTimeout
	if DefaultCheckpointTimeout <= longestActivation {
		t.Errorf("the timeout %v is no longer than an activation", DefaultCheckpointTimeout)
	}
}

func TestRefusedOptions(t *testing.T) {
	for name, test := range map[string]struct {
		set  func(*Options)
		want string
	}{
		"no endpoint":                   {func(o *Options) { o.Endpoint = "" }, "--endpoint is missing"},
		"no environment":                {func(o *Options) { o.Environment = "" }, "--environment_type is missing: use LOOPBACK"},
		"unknown environment":           {func(o *Options) { o.Environment = "MOON" }, "use LOOPBACK, PROCESS, EXTERNAL or DOCKER"},
		"LOOPBACK and async":            {func(o *Options) { o.Async = true }, "leave out --async, or use PROCESS or EXTERNAL"},
		"LOOPBACK with a config":        {func(o *Options) { o.EnvironmentConfig = "127.0.0.1:2" }, "does not take --environment_config"},
		"EXTERNAL without a config":     {func(o *Options) { o.Environment = External }, "needs --environment_config=HOST:PORT"},
		"savepoint without a cluster":   {func(o *Options) { o.Savepoint = "/s" }, "needs --flink_master=HOST:PORT"},
		"savepoint and embedded":        {func(o *Options) { o.Savepoint, o.Master = "/s", "[local]" }, "silently ignores a savepoint"},
		"embedded master":               {func(o *Options) { o.Master = "[local]" }, "give the HOST:PORT"},
		"lost state":                    {func(o *Options) { o.Savepoint, o.Master, o.AllowNonRestoredState = "/s", "h:1", true }, "give --flink_accept_lost_state"},
		"lost state without savepoint":  {func(o *Options) { o.AllowNonRestoredState, o.AcceptLostState = true, true }, "needs --flink_savepoint"},
		"negative interval":             {func(o *Options) { o.CheckpointInterval = -time.Second }, "--flink_checkpoint_interval=-1s is not valid"},
		"part of a millisecond":         {func(o *Options) { o.BundleTime = time.Microsecond }, "whole milliseconds"},
		"parallelism above the maximum": {func(o *Options) { o.Parallelism = 129 }, "raise the latter"},
		"maximum above Flink's":         {func(o *Options) { o.MaxParallelism = 40000 }, "Flink accepts 1 to 32768"},
		"batch and checkpoints":         {func(o *Options) { o.Batch, o.CheckpointInterval = true, time.Second }, "takes no checkpoints in batch mode"},
		"option without value":          {func(o *Options) { o.Extra = []string{"state_backend"} }, "give name=value"},
		"option in camel case":          {func(o *Options) { o.Extra = []string{"stateBackend=x"} }, "give name=value"},
		"option with a flag":            {func(o *Options) { o.Extra = []string{"checkpointing_interval=5"} }, "use that"},
		"option twice":                  {func(o *Options) { o.Extra = []string{"state_backend=a", "state_backend=b"} }, "given twice"},
		"option of the runner":          {func(o *Options) { o.Extra = []string{"beamagents_submission=a"} }, "the runner sends this option itself"},
		"secret option":                 {func(o *Options) { o.Extra = []string{"db_password=hunter"} }, "looks like a secret"},
		"secret in a URL":               {func(o *Options) { o.Extra = []string{"state_backend_storage_path=s3://me:hunter@host/x"} }, "looks like a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			o := loopback()
			test.set(&o)
			err := o.validate()
			wantError(t, err, test.want)
			if err != nil && strings.Contains(err.Error(), "hunter") {
				t.Errorf("the error has the secret: %v", err)
			}
		})
	}
}

func TestRefusedPipelines(t *testing.T) {
	batch := func(o *Options) { o.Batch = true }
	interval := func(o *Options) { o.CheckpointInterval = time.Second }
	for name, test := range map[string]struct {
		o    func(*Options)
		p    func(*Options) error
		want string
	}{
		"state with a side input":                 {func(*Options) {}, checked(t, "side"), "step flink.runnerSideFn has state or timers and a side input"},
		"state with a side input in batch":        {batch, checked(t, "side"), ""},
		"side input":                              {func(*Options) {}, checked(t, "stateless side"), ""},
		"side input with checkpoints":             {interval, checked(t, "stateless side"), "step flink.runnerAddFn has a side input"},
		"side input in batch":                     {batch, checked(t, "stateless side"), ""},
		"unbounded in batch":                      {batch, checked(t, "unbounded"), "leave out --flink_batch"},
		"unbounded":                               {func(*Options) {}, checked(t, "unbounded"), ""},
		"bounded timers with checkpoints":         {interval, checked(t, "timer"), "before the last timers"},
		"bounded timers":                          {func(*Options) {}, checked(t, "timer"), ""},
		"bounded state with checkpoints":          {interval, checked(t, "bounded"), ""},
		"bounded timers beside an endless branch": {func(*Options) {}, checked(t, "mixed"), "step Bounded/flink.runnerTimerFn has timers"},
		"bounded state beside an endless branch":  {func(*Options) {}, checked(t, "mixed state"), ""},
		"bounded and endless input of timers":     {func(*Options) {}, checked(t, "flattened"), ""},
		"two timer families":                      {func(*Options) {}, checked(t, "families"), "step flink.runnerFamiliesFn has the timer families first, second, and"},
		"two timer families with checkpoints":     {func(*Options) {}, checked(t, "endless families"), "use one family, with a tag for each purpose"},
		"two timer families in batch":             {batch, checked(t, "families"), "a job with bounded sources does not end"},
		"a map":                                   {func(*Options) {}, checked(t, "map"), "step flink.runnerMapFn has the cell c, which is a map, and"},
		"a map with checkpoints":                  {interval, checked(t, "map"), "starts again without end): use value or bag state"},
		"a map in batch":                          {batch, checked(t, "map"), "the first access fails the bundle"},
		"a set":                                   {func(*Options) {}, checked(t, "set"), "has the cell c, which is a set"},
		"an ordered list":                         {func(*Options) {}, checked(t, "list"), "has the cell c, which is an ordered list"},
		"values, bags and combining cells":        {interval, checked(t, "cells"), ""},
		"savepoint without any checkpoints":       {func(o *Options) { o.Savepoint, o.Master = "/s", "h:1" }, checked(t, "bounded"), "needs checkpoints"},
	} {
		t.Run(name, func(t *testing.T) {
			o := loopback()
			test.o(&o)
			if err := o.validate(); err != nil {
				t.Fatal(err)
			}
			err := test.p(&o)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, test.want)
		})
	}
}

// Pipelines of other SDKs have cells that the Go SDK does not have.
// The workers of another language do not have the fault of the Go SDK's workers.
func TestTimerFamiliesOfAnotherLanguage(t *testing.T) {
	p := marshalled(t, func(s beam.Scope) { beam.ParDo(s, newFamilies(), keyed(s)) })
	step := stepNamed(t, p, "runnerFamiliesFn")
	payload, err := parDo(step)
	if err != nil {
		t.Fatal(err)
	}
	payload.DoFn.Urn = "beam:dofn:javasdk:0.1"
	if step.Spec.Payload, err = proto.Marshal(payload); err != nil {
		t.Fatal(err)
	}
	if err := new(Options).check(p); err != nil {
		t.Error(err)
	}
}

func TestUnsupportedState(t *testing.T) {
	for want, spec := range map[string]*pipepb.StateSpec{
		"a multimap":         {Spec: &pipepb.StateSpec_MultimapSpec{}},
		"of an unknown kind": {},
	} {
		payload := &pipepb.ParDoPayload{StateSpecs: map[string]*pipepb.StateSpec{"a": {Spec: &pipepb.StateSpec_BagSpec{}}, "b": spec}}
		if id, kind := unsupportedState(payload); id != "b" || kind != want {
			t.Errorf("%s is %q, want b is %q", id, kind, want)
		}
	}
}

func checked(t *testing.T, pipeline string) func(*Options) error {
	p := marshalled(t, map[string]func(s beam.Scope){"side": sideInput, "stateless side": statelessSideInput, "unbounded": unboundedPipeline, "timer": boundedTimer, "bounded": bounded,
		"families":         func(s beam.Scope) { beam.ParDo(s, newFamilies(), keyed(s)) },
		"endless families": func(s beam.Scope) { beam.ParDo(s, newFamilies(), endless(s)) },
		"map":              func(s beam.Scope) { beam.ParDo(s, &runnerMapFn{state.MakeMapState[string, int]("c")}, keyed(s)) },
		"set":              func(s beam.Scope) { beam.ParDo(s, &runnerSetFn{state.MakeSetState[string]("c")}, keyed(s)) },
		"list":             func(s beam.Scope) { beam.ParDo(s, &runnerListFn{state.MakeOrderedListState[string]("c")}, keyed(s)) },
		"cells":            cellsOfEachKind,
		"mixed":            func(s beam.Scope) { unboundedPipeline(s.Scope("Endless")); boundedTimer(s.Scope("Bounded")) },
		"mixed state":      func(s beam.Scope) { unboundedPipeline(s.Scope("Endless")); bounded(s.Scope("Bounded")) },
		"flattened":        func(s beam.Scope) { beam.ParDo(s, newTimer(), beam.Flatten(s, keyed(s), endless(s))) },
	}[pipeline])
	return func(o *Options) error { return o.check(p) }
}

func TestLooksSecret(t *testing.T) {
	for _, test := range []struct {
		name, value string
		want        bool
	}{
		{"api_key", "sk-123", true},
		{"openaiApiKey", "sk-123", true},
		{"auth-token", "abc", true},
		{"signing_key", "abc", true},
		{"signing_key", "env:SIGNING_KEY", false},
		{"signing_key", "file:/run/key", false},
		{"max_tokens", "100", false},
		{"token_limit", "100", false},
		{"key", "customer", false},
		{"input", "/data/tokens.jsonl", false},
		{"broker", "kafka://user:pw@host:9092", true},
		{"broker", "kafka://host:9092", false},
		{"password", "", false},
		{"password", "12345678", true},
		{"db_password", "1234hunter", true},
		{"pwd", "hunter", true},
		{"token", "4815abc", true},
		{"token", "4815162342", true},
		{"api_keys", "a,b", true},
		{"encryption_key", "abc", true},
		{"authorization", "Basic aHVudGVyCg", true},
		{"token_timeout", "1m30s", false},
		{"token_budget", "1e6", false},
		{"password_length", "12", false},
		{"print_token", "true", false},
		{"token_file", "/run/secrets/token", false},
		{"credentials_path", "/etc/key.json", false},
		{"secret_name", "projects/x/secrets/y", false},
		{"keyring", "env:KEYS", false},
		{"partition_key", "customer", false},
		{"tokenizer", "cl100k", false},
		{"dsn", "host=h user=me password=hunter2", true},
		{"dsn", "postgres://h/db?user=me&password=hunter2", true},
		{"dsn", "host=h user=me", false},
		{"header", "Bearer abcdef", true},
	} {
		if got := looksSecret(test.name, test.value); got != test.want {
			t.Errorf("%s=%s: %v", test.name, test.value, got)
		}
	}
}
