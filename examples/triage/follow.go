package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/internal/messagejson"
	"github.com/beamagents/beamagents-go/internal/tail"
	"github.com/beamagents/beamagents-go/pkg/runners/flink"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	register.Function1x1(encodeLine)
	register.Function2x2(underOneKey)
	beam.RegisterDoFn(reflect.TypeFor[*triageEndFn]())
}

// closing is the event time to which the watermark moves when all lines are out: all
// deadlines are before it.
var closing = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// follow reads the input as a topic would give it: from a source that stays open until the
// file named end is there. Only a job with such a source has checkpoints on Flink.
func follow(s beam.Scope, input, end string) (transforms.Parsed, error) {
	if err := errors.Join(os.RemoveAll(end), os.MkdirAll(filepath.Dir(end), 0o777)); err != nil {
		return transforms.Parsed{}, err
	}
	lines := tail.Lines(s, tail.Params{File: input, PerBundle: 20, Until: end, Watermark: closing.UnixMilli()})
	return transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.ParDo(s, encodeLine, lines)), nil
}

// errWritten is why a job is cancelled that has done all its work.
var errWritten = errors.New("all outputs are written")

// runOpen runs a job with an open source until its outputs are written. On Flink a job with
// checkpoints does not end by itself, since its Impulse stays open: it is cancelled.
func runOpen(p *beam.Pipeline, dir string) error {
	for _, name := range outputFiles {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		for !written(dir) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(200 * time.Millisecond):
			}
		}
		cancel(errWritten)
	}()
	if _, err := beam.Run(ctx, flink.Name, p); !errors.Is(err, errWritten) {
		return err
	}
	return nil
}

// written reports whether all outputs are there. Each is complete when it is there.
func written(dir string) bool {
	for _, name := range outputFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// encodeLine makes of a line what a topic holds. What is no envelope stays as it is.
func encodeLine(line []byte) []byte {
	env := new(pb.AgentEnvelope)
	if messagejson.ReadReadable(line, env.ProtoReflect()) != nil {
		return line
	}
	encoded, err := proto.Marshal(env)
	if err != nil {
		return line
	}
	return encoded
}

// endWhenDone ends the source when the agents are done: the watermark of their outputs
// passes the deadlines only after they have fired.
func endWhenDone(s beam.Scope, outputs beam.PCollection, end string) {
	s = s.Scope("End")
	beam.ParDo(s, &triageEndFn{File: end, Due: timers.InEventTime("end")}, beam.ParDo(s, underOneKey, outputs))
}

func underOneKey(_, _ []byte) (string, bool) { return "all", true }

// triageEndFn makes a file when the watermark is at the end.
type triageEndFn struct {
	File string
	Due  timers.EventTime
}

func (f *triageEndFn) ProcessElement(tp timers.Provider, _ string, _ bool, _ func(string)) {
	f.Due.Set(tp, closing.Add(-time.Hour), timers.WithNoOutputTimestamp())
}

// OnTimer has the emitter of ProcessElement.
func (f *triageEndFn) OnTimer(_ timers.Provider, _ string, _ timers.Context, _ func(string)) {
	if err := os.WriteFile(f.File, nil, 0o600); err != nil {
		panic(err) // an OnTimer can fail its bundle in no other way
	}
}
