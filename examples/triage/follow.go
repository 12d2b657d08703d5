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

// closing is the event time to which the watermark moves after the last line. It is after all
// deadlines.
var closing = time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)

// follow reads the input as from a topic: from a source that stays open until the file named end
// exists. On Flink, only a job with such a source has checkpoints.
func follow(s beam.Scope, input, end string) (transforms.Parsed, error) {
	if err := errors.Join(os.RemoveAll(end), os.MkdirAll(filepath.Dir(end), 0o777)); err != nil {
		return transforms.Parsed{}, err
	}
	lines := tail.Lines(s, tail.Params{File: input, PerBundle: 20, Until: end, Watermark: closing.UnixMilli()})
	return transforms.ParseEnvelopes(s, transforms.ParseParams{}, beam.ParDo(s, encodeLine, lines)), nil
}

// errWritten is the reason for which a finished job is cancelled.
var errWritten = errors.New("all outputs are written")

// runOpen runs a job with an open source until its outputs are written. Then it cancels the job,
// because a job with checkpoints does not end by itself on Flink: its Impulse stays open.
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

// written reports whether all outputs exist. An output that exists is complete.
func written(dir string) bool {
	for _, name := range outputFiles {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}

// encodeLine converts a line to a message of a topic. A line that is not an envelope is not
// changed.
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

// endWhenDone ends the source when all agents are done: the watermark of their outputs passes the
// deadlines only after the deadlines have fired.
func endWhenDone(s beam.Scope, outputs beam.PCollection, end string) {
	s = s.Scope("End")
	beam.ParDo(s, &triageEndFn{File: end, Due: timers.InEventTime("end")}, beam.ParDo(s, underOneKey, outputs))
}

func underOneKey(_, _ []byte) (string, bool) { return "all", true }

// triageEndFn creates a file when the watermark reaches the end.
type triageEndFn struct {
	File string
	Due  timers.EventTime
}

func (f *triageEndFn) ProcessElement(tp timers.Provider, _ string, _ bool, _ func(string)) {
	f.Due.Set(tp, closing.Add(-time.Hour), timers.WithNoOutputTimestamp())
}

// OnTimer creates the file. It must have the emitter of ProcessElement.
func (f *triageEndFn) OnTimer(_ timers.Provider, _ string, _ timers.Context, _ func(string)) {
	if err := os.WriteFile(f.File, nil, 0o600); err != nil {
		panic(err) // the only way in which OnTimer can fail its bundle
	}
}
