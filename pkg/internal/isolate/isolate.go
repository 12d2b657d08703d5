// Package isolate runs code of a user so that no failure of it reaches the caller.
//
// # Behaviour
//
// [Run] calls a function on a goroutine of its own, because runtime.Goexit would end the
// caller's, and reports how it ended. When a time limit is given, the function's context is
// cancelled at the limit, and the function has a moment more to return; what it leaves is
// of no use in either case.
//
// # Limits
//
// A function that never returns keeps its goroutine. [Running] counts those that are
// running in the process, so that a caller can give up. Fatal errors of the Go runtime, and
// panics on goroutines that the function starts, end the process.
package isolate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Result is how a function ended.
type Result uint8

// The results.
const (
	Returned  Result = iota // it returned
	Panicked                // it panicked
	Exited                  // it called runtime.Goexit
	TimedOut                // its time was up when it ended, however it did
	Abandoned               // its time was up, and it is still running
)

// How long a function may take to return when its context is cancelled: as long as its
// time limit, within these bounds.
const (
	minGrace = 100 * time.Millisecond
	maxGrace = 5 * time.Second
)

var abandoned atomic.Int64

// Running is how many functions are running in the process whose results were abandoned.
func Running() int { return int(abandoned.Load()) }

// Run calls f and reports how it ended, with a text if it panicked. Without a limit (0) it
// waits until f ends. What f has written may be read only if it returned.
func Run(parent context.Context, limit time.Duration, f func(ctx context.Context)) (Result, string) {
	ctx, cancel := parent, context.CancelFunc(func() {})
	if limit > 0 {
		ctx, cancel = context.WithTimeout(parent, limit)
	}
	defer cancel()
	c := &call{ended: make(chan struct{})}
	go c.run(ctx, f)
	if limit <= 0 {
		<-c.ended
		return c.result, c.text
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c.ended:
		return c.result, c.text
	case <-timer.C:
	}
	cancel()
	timer.Reset(min(max(limit, minGrace), maxGrace))
	select {
	case <-c.ended:
		return TimedOut, "" // also if it ended between the timer and the cancel
	case <-timer.C:
	}
	abandoned.Add(1)
	if !c.left.CompareAndSwap(false, true) {
		abandoned.Add(-1) // it has ended in this moment
		return TimedOut, ""
	}
	return Abandoned, ""
}

// call is a function that runs.
type call struct {
	result Result
	text   string
	ended  chan struct{}
	left   atomic.Bool // by one of the two sides
}

func (c *call) run(ctx context.Context, f func(context.Context)) {
	c.result = Exited
	defer func() {
		// A function that has seen its context end was too slow, even if it is faster than the
		// timer of its caller: what it returns is of no use.
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			c.result, c.text = TimedOut, ""
		}
		if !c.left.CompareAndSwap(false, true) {
			abandoned.Add(-1)
		}
		close(c.ended)
	}()
	defer func() {
		if p := recover(); p != nil {
			c.text = Describe(p) // first: it is the user's code again, and may call Goexit
			c.result = Panicked
		}
	}()
	f(ctx)
	c.result = Returned
}

// Describe is what an error or the value of a panic says of itself. Its method may panic in
// turn, with a value that does the same, so that no text comes of it.
func Describe(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that panics when it is asked what is wrong", v)
		}
	}()
	return fmt.Sprint(v)
}
