//go:build flink

package transforms

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"

	"github.com/beamagents/beamagents-go/internal/flinktest"
	"github.com/beamagents/beamagents-go/internal/tail"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

var flinkSeed = flag.Uint64("flink-seed", 0, "seed of the schedules on Flink; 0 is another one each time")

func init() {
	beam.RegisterDoFn(reflect.TypeFor[*decodeScriptFn]())
	beam.RegisterDoFn(reflect.TypeFor[*keepRecordsFn]())
}

// decodeScriptFn reads an envelope, one a line.
type decodeScriptFn struct{}

func (f *decodeScriptFn) ProcessElement(line []byte, emit func(beam.EventTime, *pb.AgentEnvelope)) error {
	raw, err := base64.StdEncoding.DecodeString(string(line))
	if err != nil {
		return err
	}
	parseTimed(raw, emit)
	return nil
}

// crashesLeft is how often this process lets a bundle of keepRecordsFn fail.
var crashesLeft atomic.Int32

// keepRecordsFn keeps what a key has left in its state, and in a file that is a copy of it.
// It fails now and then, by an error or a panic, while crashesLeft says so.
type keepRecordsFn struct {
	Records beamstate.Value[[]byte]
	Dir     string
	Seed    uint64
}

func (f *keepRecordsFn) ProcessElement(sp beamstate.Provider, key []byte, record string, emit func(string)) error {
	r := rand.New(rand.NewPCG(f.Seed, uint64(time.Now().UnixNano())))
	if r.IntN(100) == 0 && crashesLeft.Add(-1) >= 0 {
		if r.IntN(2) == 0 {
			panic("a crash of the test")
		}
		return errors.New("a crash of the test")
	}
	all := map[string]int{}
	stored, ok, err := f.Records.Read(sp)
	if err != nil {
		return err
	}
	if ok {
		if err := json.Unmarshal(stored, &all); err != nil {
			return err
		}
	}
	all[record]++
	if stored, err = json.Marshal(all); err != nil {
		return err
	}
	if err := f.Records.Write(sp, stored); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(f.Dir, ".records-*")
	if err != nil {
		return err
	}
	if _, err := tmp.Write(stored); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), filepath.Join(f.Dir, string(key)))
}

// flinkSchedules are the parameters of random scripts.
func flinkSchedules(t *testing.T) (params []AgentParams, scripts [][]*pb.AgentEnvelope, seed uint64) {
	seed = *flinkSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano()) % 1_000_000
	}
	t.Logf("-flink-seed %d", seed)
	params = []AgentParams{
		{Agent: &scriptedAgent{Jitter: 200}, MaxDeferred: 8, TTL: 10 * time.Second},
		{Agent: &scriptedAgent{Jitter: 200, Route: "escalate"}, MaxDeferred: 5, HoldWatermark: true},
		{Agent: &scriptedAgent{Jitter: 200, Route: "resume"}, MaxDeferred: 30, TTL: 5 * time.Second},
	}
	for i := range params {
		params[i].Name = "test"
		var seeds []uint64
		for n := range 5 {
			seeds = append(seeds, seed+uint64(100*i+n))
		}
		all, err := boundedScripts(params[i], seeds)
		if err != nil {
			t.Fatal(err)
		}
		scripts = append(scripts, all)
	}
	return params, scripts, seed
}

// On Flink the result of random scripts is what the oracle says: of a bounded input, and of
// an unbounded one whose bundles fail, where each record is kept once.
func TestFlinkSameForEverySchedule(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	pom, err := flinktest.POM()
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := flinktest.Start(ctx, pom)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Logf("the logs are in %s\n%s", cluster.Dir, cluster.Logs(20))
		}
		if err := cluster.Stop(t.Failed()); err != nil {
			t.Error(err)
		}
	}()
	t.Run("bounded", func(t *testing.T) { flinkBounded(ctx, t, cluster) })
	t.Run("crashes", func(t *testing.T) { flinkCrashes(ctx, t, cluster) })
}

func flinkBounded(ctx context.Context, t *testing.T, cluster *flinktest.Cluster) {
	params, scripts, _ := flinkSchedules(t)
	p, s := beam.NewPipelineWithRoot()
	for i := range params {
		params[i].Concurrency = 16
		_, unexplained := schedules(s.Scope(fmt.Sprintf("Schedule%d", i)), params[i], scripts[i])
		passert.Empty(s.Scope(fmt.Sprintf("Explained%d", i)), unexplained)
	}
	if _, err := flink.Run(ctx, p, flink.Options{Endpoint: cluster.Endpoint, Environment: flink.Loopback, JobName: "bounded"}); err != nil {
		t.Error(err)
	}
}

func flinkCrashes(ctx context.Context, t *testing.T, cluster *flinktest.Cluster) {
	params, scripts, seed := flinkSchedules(t)
	const crashes = 4
	crashesLeft.Store(crashes)
	p, s := beam.NewPipelineWithRoot()
	dirs := make([]string, len(params))
	for i := range params {
		params[i].Concurrency = 16
		dirs[i] = t.TempDir()
		file := filepath.Join(t.TempDir(), "scripts")
		var lines bytes.Buffer
		for _, env := range scripts[i] {
			fmt.Fprintln(&lines, base64.StdEncoding.EncodeToString(marshaled(env)))
		}
		if err := os.WriteFile(file, lines.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		s := s.Scope(fmt.Sprintf("Schedule%d", i))
		read := tail.Lines(s, tail.Params{File: file, PerBundle: 20, Until: file + ".until", Watermark: 4_102_444_800_000})
		agents := RunAgent(s, params[i], KeyByEntity(s, beam.ParDo(s, &decodeScriptFn{}, read)))
		all := beam.Flatten(s,
			beam.ParDo(s, recordOutput, agents.Outputs), beam.ParDo(s, recordIntent, agents.Intents), beam.ParDo(s, recordTrace, agents.Traces),
			beam.ParDo(s, recordSnapshot, agents.Snapshots), beam.ParDo(s, recordError, agents.Errors))
		beam.ParDo(s, &keepRecordsFn{Records: beamstate.MakeValueState[[]byte]("records"), Dir: dirs[i], Seed: seed}, all)
	}
	running, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan error, 1)
	go func() {
		_, err := flink.Run(running, p, flink.Options{
			Endpoint: cluster.Endpoint, Environment: flink.Loopback, JobName: "crashes", CheckpointInterval: 700 * time.Millisecond,
		})
		done <- err
	}()
	for {
		problems := flinkUnexplained(t, params, scripts, dirs)
		if len(problems) == 0 {
			break
		}
		select {
		case err := <-done:
			t.Fatalf("the job ended: %v\n%s", err, strings.Join(problems, "\n"))
		case <-ctx.Done():
			t.Fatalf("not explained:\n%s", strings.Join(problems, "\n"))
		case <-time.After(time.Second):
		}
	}
	if n := crashesLeft.Load(); n > 0 {
		t.Errorf("%d of %d crashes did not happen", n, crashes)
	}
	stop()
	<-done
}

// flinkUnexplained are the keys whose records the oracle cannot explain.
func flinkUnexplained(t *testing.T, params []AgentParams, scripts [][]*pb.AgentEnvelope, dirs []string) (problems []string) {
	t.Helper()
	for i := range params {
		o, err := newOracle(params[i])
		if err != nil {
			t.Fatal(err)
		}
		inputs := map[string][]*pb.AgentEnvelope{}
		for _, env := range scripts[i] {
			name := string(env.GetEntityKey())
			inputs[name] = append(inputs[name], env)
		}
		for name, all := range inputs {
			records := map[string]int{}
			content, err := os.ReadFile(filepath.Join(dirs[i], name))
			if err == nil {
				err = json.Unmarshal(content, &records)
			}
			slices.SortStableFunc(all, func(a, b *pb.AgentEnvelope) int { return int(a.GetEventTimeMs() - b.GetEventTimeMs()) })
			if err == nil {
				err = o.key(name).explain(all, records)
			}
			if err != nil {
				problems = append(problems, fmt.Sprintf("schedule %d, key %s: %v", i, name, err))
			}
		}
	}
	return problems
}
