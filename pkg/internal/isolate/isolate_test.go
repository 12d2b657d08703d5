package isolate_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
)

// vicious panics with itself in its method Error.
type vicious struct{}

func (v vicious) Error() string { panic(v) }

// leaving ends the goroutine that calls its method Error.
type leaving struct{}

func (leaving) Error() string { runtime.Goexit(); return "" }

func TestRun(t *testing.T) {
	var nilMap map[string]int
	for name, tt := range map[string]struct {
		f    func()
		want isolate.Result
		text string
	}{
		"returns":                 {func() {}, isolate.Returned, ""},
		"panics":                  {func() { panic("boom") }, isolate.Panicked, "boom"},
		"panics with an error":    {func() { panic(errors.New("boom")) }, isolate.Panicked, "boom"},
		"panics with nil":         {func() { panic(nil) }, isolate.Panicked, "nil"},
		"the runtime panics":      {func() { nilMap["a"] = 1 }, isolate.Panicked, "nil map"},
		"panics viciously":        {func() { panic(vicious{}) }, isolate.Panicked, "isolate_test.vicious"},
		"exits":                   {runtime.Goexit, isolate.Exited, ""},
		"exits when it is asked":  {func() { panic(leaving{}) }, isolate.Exited, ""},
		"panics while it exits":   {func() { defer func() { panic("boom") }(); runtime.Goexit() }, isolate.Panicked, "boom"},
		"exits while it panics":   {func() { defer runtime.Goexit(); panic("boom") }, isolate.Exited, ""},
		"recovers a panic itself": {func() { defer func() { _ = recover() }(); panic("boom") }, isolate.Returned, ""},
	} {
		for _, limit := range []time.Duration{0, time.Minute} {
			got, text := isolate.Run(t.Context(), limit, func(context.Context) { tt.f() })
			if got != tt.want || !strings.Contains(text, tt.text) || tt.text == "" && text != "" {
				t.Errorf("%s, limit %v: %v %q, want %v %q", name, limit, got, text, tt.want, tt.text)
			}
		}
	}
}

// A function that ends because its context ends was too slow, each time.
func TestRunTimedOut(t *testing.T) {
	for name, end := range map[string]func(){
		"returns": func() {}, "panics": func() { panic("boom") }, "exits": runtime.Goexit,
	} {
		for range 100 {
			got, text := isolate.Run(t.Context(), time.Millisecond, func(ctx context.Context) {
				<-ctx.Done()
				end()
			})
			if got != isolate.TimedOut || text != "" {
				t.Fatalf("a function that %s when its time is up: %v %q", name, got, text)
			}
		}
	}
	if n := isolate.Running(); n != 0 {
		t.Errorf("%d are running", n)
	}
}

// A cancelled caller does not count as the time limit.
func TestRunCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, limit := range []time.Duration{0, time.Minute} {
		got, _ := isolate.Run(ctx, limit, func(ctx context.Context) {
			cancel()
			<-ctx.Done()
		})
		if got != isolate.Returned {
			t.Errorf("limit %v: %v", limit, got)
		}
	}
}

// Running counts the functions that still run, until they end in any way.
func TestRunAbandoned(t *testing.T) {
	release := make(chan struct{})
	ends := []func(){func() {}, func() { panic("boom") }, runtime.Goexit}
	for i, end := range ends {
		got, text := isolate.Run(t.Context(), time.Millisecond, func(context.Context) {
			<-release
			end()
		})
		if got != isolate.Abandoned || text != "" {
			t.Errorf("%v %q", got, text)
		}
		if n := isolate.Running(); n != i+1 {
			t.Errorf("%d are running, want %d", n, i+1)
		}
	}
	close(release)
	for end := time.Now().Add(10 * time.Second); isolate.Running() > 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("%d are still running", isolate.Running())
		}
	}
}

func TestDescribe(t *testing.T) {
	for _, tt := range []struct {
		v    any
		want string
	}{
		{"text", "text"},
		{errors.New("text"), "text"},
		{vicious{}, "a isolate_test.vicious that panics when it is asked what is wrong"},
		{nil, "<nil>"},
	} {
		if got := isolate.Describe(tt.v); !strings.HasSuffix(got, tt.want) && !strings.Contains(got, "vicious") {
			t.Errorf("Describe: %q, want %q", got, tt.want)
		}
	}
}
