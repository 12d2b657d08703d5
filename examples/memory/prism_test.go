package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/options/jobopts"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"

	"github.com/beamagents/beamagents-go/pkg/state"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*twoAtOnceFn]())
	beam.RegisterFunction(sameKey)
}

// twoAtOnceFn holds its first element until another one of the key is processed, which
// a runner must not do: they would read the same state, and one would overwrite the
// other's.
type twoAtOnceFn struct{ Memory state.Memory }

var (
	calls     atomic.Int64
	twoAtOnce = make(chan struct{})
)

func (*twoAtOnceFn) ProcessElement(_ beamstate.Provider, _ string, _ int) error {
	switch calls.Add(1) {
	case 1:
		select {
		case <-twoAtOnce:
		case <-time.After(20 * time.Second):
			return errors.New("the key was left alone")
		}
	case 2:
		close(twoAtOnce)
	}
	return nil
}

func sameKey(n int) (string, int) { return "k", n }

// The embedded runner splits a bundle that makes no progress for 200 ms, between elements
// of one key, too. If this fails, it has learnt not to, and keepKeysWhole can go.
func TestEmbeddedRunnerSplitsKeys(t *testing.T) {
	if os.Getenv("MEMORY_TEST_SPLIT") == "" {
		stdout, stderr, status := process(t, []string{"MEMORY_TEST_SPLIT=1"}, "-test.run", "^TestEmbeddedRunnerSplitsKeys$")
		if status != 0 {
			t.Errorf("status %d\n%s%s", status, stdout, stderr)
		}
		return
	}
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	beam.ParDo0(s, &twoAtOnceFn{}, beam.ParDo(s, sameKey, beam.Create(s, 1, 2, 3, 4, 5, 6)))
	if _, err := prism.Execute(context.Background(), p); err != nil {
		t.Error(err)
	}
}

func TestKeepKeysWhole(t *testing.T) {
	before := *jobopts.Experiments
	defer func() { *jobopts.Experiments = before }()
	for _, set := range []string{"", "mine", "mine,other"} {
		*jobopts.Experiments = set
		want := append(jobopts.GetExperiments(), "prism_disable_sdf_split")
		keepKeysWhole()
		if got := jobopts.GetExperiments(); !slices.Equal(got, want) {
			t.Errorf("%q: %q", set, got)
		}
	}
}

func TestQuietEnd(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(quietEnd{slog.NewTextHandler(&out, nil)})
	log.Error("[SDK] StateChannel[localhost:1].read bad: rpc error: code = Canceled desc = context canceled")
	log.Warn("[SDK] StateChannel[localhost:1].read: closed")
	log.Error("[SDK] StateChannel[localhost:1].read bad: rpc error: code = Unavailable")
	log.Error("context canceled")
	if got := out.String(); strings.Count(got, "\n") != 2 || strings.Contains(got, "Canceled") || strings.Contains(got, "closed") {
		t.Errorf("logged:\n%s", got)
	}
}
