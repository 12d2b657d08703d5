package modelcall_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/modelcall"
)

// A call that an activation has begun and not ended takes no slot from the next activation.
func TestEndGivesCallsBack(t *testing.T) {
	hangs := make(chan struct{})
	t.Cleanup(func() { close(hangs) })
	for name, leave := range map[string]func(t *testing.T, b *bench, c *modelcall.Calls){
		"a body that nobody reads": func(t *testing.T, b *bench, c *modelcall.Calls) {
			resp, err := c.Client().Do(b.request(t.Context(), http.MethodPost, `{}`)) //nolint:bodyclose // that is the test
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Fatal(resp, err)
			}
		},
		"a model that ignores its context": func(t *testing.T, _ *bench, c *modelcall.Calls) {
			begun := make(chan struct{})
			go func() {
				_, _, _ = c.Call(t.Context(), modelcall.Request{}, func(context.Context) ([]byte, error) {
					close(begun)
					<-hangs
					return nil, nil
				})
			}()
			<-begun
		},
		"a transport that ignores its context": func(t *testing.T, b *bench, c *modelcall.Calls) {
			req := b.request(t.Context(), http.MethodPost, `{}`)
			req.Header.Set("X-Hang", "yes")
			go func() { _, _ = c.Client().Do(req) }() //nolint:bodyclose // there is none
			for b.calls.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, jsonAnswer)
			b.process = modelcall.NewProcess(modelcall.Options{MaxCalls: 1, NoMemo: true, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("X-Hang") != "" {
					b.calls.Add(1)
					<-hangs
				}
				return http.DefaultTransport.RoundTrip(r)
			})})
			c := b.begin()
			leave(t, b, c)
			c.End()
			next := b.begin()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			resp, err := next.Client().Do(b.request(ctx, http.MethodPost, `{}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
		})
	}
}

// A model that is called with CallModel may make its request with the client of the activation. It
// does not wait for its own call, and the bound holds.
func TestCallWithinCall(t *testing.T) {
	b := newBench(t, jsonAnswer)
	b.process = modelcall.NewProcess(modelcall.Options{MaxCalls: 1, NoMemo: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	c := b.begin()
	_, _, err := c.Call(ctx, modelcall.Request{}, func(ctx context.Context) ([]byte, error) {
		var group sync.WaitGroup
		for i := range 3 {
			group.Go(func() {
				resp, err := c.Client().Do(b.request(ctx, http.MethodPost, strconv.Itoa(i)))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			})
		}
		group.Wait()
		return []byte("done"), ctx.Err()
	})
	if err != nil {
		t.Error(err)
	}
	if left := b.end(c); len(left.Calls) != 4 {
		t.Errorf("left %+v", left)
	}
	// The slot is free again.
	if _, _, err := b.begin().Call(ctx, modelcall.Request{Model: "other"}, func(context.Context) ([]byte, error) { return nil, nil }); err != nil {
		t.Error(err)
	}
}

// If a transport panics, nothing is recorded, and its retry is the first call.
func TestTransportPanics(t *testing.T) {
	b := newBench(t, jsonAnswer)
	panics := true
	b.process = modelcall.NewProcess(modelcall.Options{MaxCalls: 1, NoMemo: true, Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		if panics {
			panic("broken")
		}
		return http.DefaultTransport.RoundTrip(r)
	})})
	c := b.begin()
	func() {
		defer func() { _ = recover() }()
		_, _ = b.ask(c, `{}`)
		t.Error("it has not panicked")
	}()
	panics = false
	if text, err := b.ask(c, `{}`); err != nil || text != `200 OK {"n":1}` {
		t.Errorf("%q, %v", text, err)
	}
	b.end(c)
	if text, err := b.ask(b.begin(), `{}`); err != nil || text != `200 OK {"n":1}` || b.calls.Load() != 1 {
		t.Errorf("%q, %v, %d calls", text, err, b.calls.Load())
	}
}

// Methods of an agent that hang do not stop the worker.
func TestEndDoesNotWaitForHooks(t *testing.T) {
	begun, hangs := make(chan struct{}), make(chan struct{})
	defer close(hangs)
	same := func(b []byte) ([]byte, error) { return b, nil }
	b := newBench(t, jsonAnswer)
	b.config.Hooks = modelcall.Hooks{Seal: same, Open: func(b []byte) ([]byte, error) {
		close(begun)
		<-hangs
		return b, nil
	}}
	c := b.begin()
	if _, err := b.ask(c, `{}`); err != nil {
		t.Fatal(err)
	}
	b.end(c)
	c = b.begin()
	go func() { _, _ = b.ask(c, `{}`) }()
	<-begun
	ended := make(chan struct{})
	go func() { c.End(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("End waits for OpenResponse")
	}
}
