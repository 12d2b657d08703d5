package flink

import (
	"flag"
	"reflect"
	"strings"
	"testing"

	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/dataflow" // a flag that is defined twice panics
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/flink"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
)

// set sets flags for a test.
func set(t *testing.T, values map[string]string) {
	t.Helper()
	for name, value := range values {
		f := flag.Lookup(name)
		if f == nil {
			t.Fatalf("there is no flag %s", name)
		}
		before := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if name == "flink_option" {
				optionFlag = nil
			} else if err := f.Value.Set(before); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// Every field of Options has a flag that sets it, but for Progress, which a switch sets.
func TestFlagsSetOptions(t *testing.T) {
	set(t, map[string]string{
		"endpoint": "h:1", "job_name": "orders", "environment_type": "process", "environment_config": "{}", "worker_binary": "/w",
		"async": "true", "parallelism": "2", "experiments": "a,b", "retain_docker_containers": "true",
		"flink_checkpoint_interval": "1s", "flink_checkpoint_timeout": "2s", "flink_bundle_time": "3s", "flink_max_parallelism": "4",
		"flink_operator_chaining": "true", "flink_batch": "true", "flink_savepoint": "/s", "flink_allow_non_restored_state": "true",
		"flink_accept_lost_state": "true", "flink_master": "h:2", "flink_option": "x=y",
	})
	o, err := fromFlags()
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(o)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s has no flag", v.Type().Field(i).Name)
		}
	}
}

func TestFlagDefaultsAreThoseOfOptions(t *testing.T) {
	set(t, map[string]string{"endpoint": "h:1", "environment_type": "LOOPBACK", "job_name": "orders"})
	got, err := fromFlags()
	if err != nil {
		t.Fatal(err)
	}
	want := Options{Endpoint: "h:1", Environment: "LOOPBACK", JobName: "orders"}
	if err := want.validate(); err != nil {
		t.Fatal(err)
	}
	if err := got.validate(); err != nil {
		t.Fatal(err)
	}
	got.Progress = nil
	if !reflect.DeepEqual(got, want) {
		t.Errorf("flags %+v, want %+v", got, want)
	}
}

func TestRefusedFlags(t *testing.T) {
	for name, values := range map[string]map[string]string{
		"--flink_bundle_time=0":        {"flink_bundle_time": "0"},
		"--flink_checkpoint_timeout=0": {"flink_checkpoint_timeout": "0"},
		"--parallelism=0":              {"parallelism": "0"},
		"--parallelism=-2":             {"parallelism": "-2"},
	} {
		t.Run(name, func(t *testing.T) {
			set(t, values)
			_, err := fromFlags()
			wantError(t, err, name+" is not valid")
		})
	}
}

// A flag of a user's program may have any other name, and scripts keep these.
func TestFlagNames(t *testing.T) {
	var ours []string
	flag.VisitAll(func(f *flag.Flag) {
		if name, ok := strings.CutPrefix(f.Name, "flink_"); ok {
			if !ownFlags[f.Name] {
				t.Errorf("%s is sent to the workers", f.Name)
			}
			ours = append(ours, name)
		}
	})
	want := "accept_lost_state allow_non_restored_state batch bundle_time checkpoint_interval checkpoint_timeout master max_parallelism operator_chaining option progress savepoint"
	if got := strings.Join(ours, " "); got != want {
		t.Errorf("flags %s", got)
	}
}

// The flags of a boot program are the program's to define, unless it is started as one.
func TestBootFlagsAreNotDefined(t *testing.T) {
	for _, name := range []string{provisionFlag, artifactFlag} {
		if flag.Lookup(name) != nil {
			t.Errorf("--%s is defined", name)
		}
	}
}

func TestBootFlagsOfABootProgram(t *testing.T) {
	flags := flag.NewFlagSet("program", flag.ContinueOnError)
	args := []string{"--id=1-1", "--provision_endpoint=h:1", "-artifact_endpoint", "h:2"}
	flags.String("id", "", "")
	defineBootFlags(flags, args)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	if got := flags.Lookup(provisionFlag).Value.String() + " " + flags.Lookup(artifactFlag).Value.String(); got != "h:1 h:2" {
		t.Errorf("flags %s", got)
	}
}
