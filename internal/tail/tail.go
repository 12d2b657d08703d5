// Package tail reads the lines of a file as an unbounded PCollection. It is for pipelines that
// run as with a message queue, such as the tests on Flink and a demo.
//
// # Behaviour
//
// [Lines] emits the lines of a file in portions, and then waits for more lines, as tail -f does.
// Two marker files control it:
//
//   - While Complete is missing, lines may be appended, and the watermark stays at the
//     beginning of time, so that no timer of event time fires.
//   - Once Complete is there and all lines are out, the watermark moves to Watermark. Timers
//     up to that time fire, and the source stays open.
//   - Once Until is there, too, the source ends. On Prism the job then ends by itself. On
//     Flink, a job with checkpoints does not: cancel it, or stop it with a savepoint.
//
// A line is emitted at the beginning of time: give it its event time in the next step, as
// transforms.ParseEnvelopes does.
//
// # Limits
//
// One worker at a time reads the file, and the file must be on that worker. A line without a
// newline is not read yet. On Flink the source emits its next lines in its next bundle, and each
// bundle adds about 3.5 kB to a checkpoint that are never freed (apache/beam 27648).
package tail

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"reflect"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/sdf"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/io/rtrackers/offsetrange"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[*beamagentsTailFn]()) }

// Params are the options of [Lines].
type Params struct {
	// File is required: the path of the file on the worker.
	File string
	// PerBundle is how many lines are emitted at a time, at least 1; 0 is 100.
	PerBundle int
	// Complete is the path of a file that exists once no more lines are appended. If it is empty,
	// lines are never appended.
	Complete string
	// Until is the path of a file. The source ends when it and Complete exist. It is required.
	Until string
	// Watermark is the event time to which the watermark moves after the last line, in ms since
	// the Unix epoch. Flink cuts it to a whole second.
	Watermark int64
}

// Lines returns the lines of a file without their newlines, as an unbounded PCollection of
// []byte. It panics if a parameter is missing.
func Lines(s beam.Scope, params Params) beam.PCollection {
	switch {
	case params.File == "" || params.Until == "":
		panic("tail.Lines: Params.File and Params.Until are required")
	case params.PerBundle < 0:
		panic(fmt.Sprintf("tail.Lines: Params.PerBundle is %d; use at least 1", params.PerBundle))
	case params.PerBundle == 0:
		params.PerBundle = 100
	}
	s = s.Scope("tail.Lines")
	return beam.ParDo(s, &beamagentsTailFn{Params: params}, beam.Impulse(s))
}

// beamagentsTailFn is the source. Its restriction is a range of bytes without an end.
type beamagentsTailFn struct {
	Params Params
}

// CreateInitialRestriction returns the range from the first byte on.
func (f *beamagentsTailFn) CreateInitialRestriction([]byte) offsetrange.Restriction {
	return offsetrange.Restriction{Start: 0, End: math.MaxInt64}
}

// SplitRestriction does not split, so that the lines are emitted in order.
func (f *beamagentsTailFn) SplitRestriction(_ []byte, r offsetrange.Restriction) []offsetrange.Restriction {
	return []offsetrange.Restriction{r}
}

// RestrictionSize returns 1, because the number of lines is unknown.
func (f *beamagentsTailFn) RestrictionSize([]byte, offsetrange.Restriction) float64 { return 1 }

// CreateTracker returns a tracker that splits only after the lines that were emitted.
func (f *beamagentsTailFn) CreateTracker(r offsetrange.Restriction) *sdf.LockRTracker {
	return sdf.NewLockRTracker(&wholeTracker{Tracker: offsetrange.NewTracker(r)})
}

// TruncateRestriction ends the source when the job is drained.
func (f *beamagentsTailFn) TruncateRestriction(*sdf.LockRTracker, []byte) offsetrange.Restriction {
	return offsetrange.Restriction{}
}

// InitialWatermarkEstimatorState returns the beginning of time.
func (f *beamagentsTailFn) InitialWatermarkEstimatorState(beam.EventTime, offsetrange.Restriction, []byte) int64 {
	return mtime.MinTimestamp.Milliseconds()
}

// CreateWatermarkEstimator returns an estimator with its state.
func (f *beamagentsTailFn) CreateWatermarkEstimator(ms int64) *sdf.ManualWatermarkEstimator {
	return &sdf.ManualWatermarkEstimator{State: mtime.FromMilliseconds(ms).ToTime()}
}

// WatermarkEstimatorState returns the watermark, in ms.
func (f *beamagentsTailFn) WatermarkEstimatorState(e *sdf.ManualWatermarkEstimator) int64 {
	return mtime.FromTime(e.State).Milliseconds()
}

// ProcessElement emits the next lines.
func (f *beamagentsTailFn) ProcessElement(watermark *sdf.ManualWatermarkEstimator, rt *sdf.LockRTracker, _ []byte, emit func(beam.EventTime, []byte)) (sdf.ProcessContinuation, error) {
	// Check the markers before reading, so that lines that were appended before a marker are
	// read.
	complete, err := exists(f.Params.Complete)
	if err != nil {
		return nil, err
	}
	until, err := exists(f.Params.Until)
	if err != nil {
		return nil, err
	}
	file, err := os.Open(f.Params.File)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()                       // the file is only read
	at := rt.GetRestriction().(offsetrange.Restriction).Start //nolint:forcetypeassert // CreateTracker has made it
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return nil, err
	}
	lines := bufio.NewReader(file)
	for range f.Params.PerBundle {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if !complete {
				return sdf.ResumeProcessingIn(0), nil
			}
			watermark.UpdateWatermark(time.UnixMilli(f.Params.Watermark))
			if !until {
				return sdf.ResumeProcessingIn(0), nil
			}
			rt.TryClaim(int64(math.MaxInt64)) // claims everything, so the source ends
			return sdf.StopProcessing(), rt.GetError()
		} else if err != nil {
			return nil, err
		}
		at += int64(len(line))
		if !rt.TryClaim(at - 1) { // claims the newline; the rest starts after it
			return sdf.StopProcessing(), rt.GetError()
		}
		emit(mtime.MinTimestamp, bytes.TrimSuffix(line, []byte("\n")))
	}
	return sdf.ResumeProcessingIn(0), nil
}

// exists reports whether a marker exists. A marker without a name always does.
func exists(path string) (bool, error) {
	if path == "" {
		return true, nil
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// wholeTracker splits a restriction only into the finished part and the whole rest.
type wholeTracker struct {
	*offsetrange.Tracker
}

// TrySplit splits at a fraction of 0, at the end of a bundle.
func (t *wholeTracker) TrySplit(fraction float64) (primary, residual any, err error) {
	if fraction > 0 {
		return t.GetRestriction(), nil, nil
	}
	return t.Tracker.TrySplit(fraction)
}

// IsBounded returns false, because lines may be appended.
func (t *wholeTracker) IsBounded() bool { return false }
