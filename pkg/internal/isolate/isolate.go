// Package isolate runs a user's code so that no failure of that code reaches the caller.
//
// # Behaviour
//
// [Run] calls a function on its own goroutine, because runtime.Goexit would end the caller's
// goroutine, and reports how the function ended. If there is a time limit, the function's context
// is cancelled at the limit, and Run waits for the function once more as long as the limit, but
// 100 ms at least and 5 s at most. After the limit the results of the function must not be used,
// even if it returns.
//
// # Limits
//
// A function that never returns keeps its goroutine. [Running] returns how many such functions
// are running in the process, so that a caller can give up. Fatal errors of the Go runtime, and
// panics on goroutines that the function starts, end the process.
package isolate

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// Result says how a function ended.
type Result uint8

// The results.
const (
	Returned  Result = iota // it returned
	Panicked                // it panicked
	Exited                  // it called runtime.Goexit
	TimedOut                // it ended after its time limit, in whatever way
	Abandoned               // it still runs after its time limit
)

// The time that a function has to return after its context was cancelled. It is as long as the
// time limit, within these bounds.
const (
	minGrace = 100 * time.Millisecond
	maxGrace = 5 * time.Second
)

var abandoned atomic.Int64

// Running returns how many abandoned functions are still running in the process.
func Running() int { return int(abandoned.Load()) }

// Run calls f and reports how it ended, with a text if f panicked. If limit is 0, Run waits until
// f ends. The caller may read what f has written only if the result is Returned.
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
		return TimedOut, "" // f may also have ended between the timer and the cancel
	case <-timer.C:
	}
	abandoned.Add(1)
	if !c.left.CompareAndSwap(false, true) {
		abandoned.Add(-1) // f has ended meanwhile
		return TimedOut, ""
	}
	return Abandoned, ""
}

// call is a running function.
type call struct {
	result Result
	text   string
	ended  chan struct{}
	left   atomic.Bool // set by the first of the two goroutines
}

func (c *call) run(ctx context.Context, f func(context.Context)) {
	c.result = Exited
	defer func() {
		// A function that saw its context end was too slow, even if it returned before the
		// caller's timer fired. Its results must not be used.
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
			c.text = Describe(p) // before the rest: Describe runs the user's code, which may call Goexit
			c.result = Panicked
		}
	}()
	f(ctx)
	c.result = Returned
}

// Describe returns the text of an error or of a panic's value. If the method that makes the text
// panics, Describe names the type instead.
func Describe(v any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("a %T that panics when it is asked what is wrong", v)
		}
	}()
	return fmt.Sprint(v)
}
