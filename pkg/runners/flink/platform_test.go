package flink

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

func TestPlatform(t *testing.T) {
	for name, tc := range map[string]struct {
		options Options
		want    compat.Platform
	}{
		"defaults": {Options{}, compat.Platform{MaxParallelism: DefaultMaxParallelism, Chaining: "off"}},
		"of the command line": {
			Options{Environment: "loopback", Parallelism: -1, MaxParallelism: 64, Chaining: true},
			compat.Platform{Environment: "beam:env:external:v1", MaxParallelism: 64, Chaining: "on"},
		},
		"processes": {
			Options{Environment: Process, Parallelism: 2},
			compat.Platform{Environment: "beam:env:process:v1", Parallelism: 2, MaxParallelism: DefaultMaxParallelism, Chaining: "off"},
		},
		"a worker pool": {
			Options{Environment: External},
			compat.Platform{Environment: "beam:env:external:v1", MaxParallelism: DefaultMaxParallelism, Chaining: "off"},
		},
		"containers": {
			Options{Environment: Docker},
			compat.Platform{Environment: "beam:env:docker:v1", MaxParallelism: DefaultMaxParallelism, Chaining: "off"},
		},
	} {
		if diff := cmp.Diff(tc.want, tc.options.Platform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
