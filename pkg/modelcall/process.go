package modelcall

import (
	"container/list"
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// DefaultMaxCalls is the default of [Options].MaxCalls.
const DefaultMaxCalls = 64

// Bounds of the memo of a process.
const (
	MaxMemoBytes   = 32 << 20 // bytes of stored responses
	MaxMemoEntries = 4096
)

// MaxPause bounds how long a Retry-After stops the calls to a host.
const MaxPause = time.Minute

// defaultPause is how long a host that has too much to do is left alone if it does not say
// for how long.
const defaultPause = time.Second

// Options are what the calls of a process share.
type Options struct {
	MaxCalls  int               // in flight at once; 0 is DefaultMaxCalls
	NoMemo    bool              // remember nothing between activations
	Transport http.RoundTripper // nil is a transport of this package
}

// Process is what the model calls of all activations of an agent in a worker process share:
// the transport, the bound on calls in flight, the pauses that hosts have asked for, and
// the memo of responses.
type Process struct {
	transport http.RoundTripper
	slots     chan struct{}
	memo      *memo // nil without one

	mu     sync.Mutex
	paused map[string]time.Time // until when, by host
}

// NewProcess returns what an agent needs in a worker process.
func NewProcess(o Options) *Process {
	p := &Process{transport: o.Transport, paused: map[string]time.Time{}}
	if p.transport == nil {
		p.transport = defaultTransport()
	}
	if o.MaxCalls <= 0 {
		o.MaxCalls = DefaultMaxCalls
	}
	p.slots = make(chan struct{}, o.MaxCalls)
	if !o.NoMemo {
		p.memo = &memo{entries: map[string]*list.Element{}, tries: map[string]map[string]bool{}}
	}
	return p
}

// defaultTransport is one for all agents of the process that bring none: the settings of
// http.DefaultTransport, with as many idle connections to a host as there may be calls.
var defaultTransport = sync.OnceValue(func() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 4*DefaultMaxCalls, DefaultMaxCalls
	return t
})

// lentKey is the key of the slot of a call, which calls within it may take.
type lentKey struct{ process *Process }

// lend returns a context whose calls may take the slot of the call that they are part of.
func (p *Process) lend(ctx context.Context) context.Context {
	return context.WithValue(ctx, lentKey{p}, make(chan struct{}, 1))
}

// acquire waits until a call to host may be made. The caller releases it.
func (p *Process) acquire(ctx context.Context, host string) (release func(), err error) {
	lent, _ := ctx.Value(lentKey{p}).(chan struct{}) // nil is never ready
	for {
		if err := p.waitFor(ctx, host); err != nil {
			return nil, err
		}
		taken := p.slots
		select {
		case p.slots <- struct{}{}:
		case lent <- struct{}{}:
			taken = lent
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if p.pause(host) <= 0 {
			return func() { <-taken }, nil
		}
		<-taken // paused in the meantime: the others must not wait for us
	}
}

func (p *Process) waitFor(ctx context.Context, host string) error {
	for {
		d := p.pause(host)
		if d <= 0 {
			return ctx.Err()
		}
		timer := time.NewTimer(d)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// pause is how long the host must be left alone.
func (p *Process) pause(host string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	until, ok := p.paused[host]
	if !ok {
		return 0
	}
	d := time.Until(until)
	if d <= 0 {
		delete(p.paused, host)
	}
	return d
}

// statusOverloaded is what some providers answer when they have too much to do.
const statusOverloaded = 529

// heed stops the calls to a host that asks for it.
func (p *Process) heed(host string, resp *http.Response) {
	asked, given := retryAfter(resp.Header)
	switch resp.StatusCode {
	case http.StatusTooManyRequests, statusOverloaded:
		if !given {
			asked = defaultPause
		}
	case http.StatusServiceUnavailable:
	default:
		return
	}
	asked = min(asked, MaxPause)
	if asked <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if until := time.Now().Add(asked); until.After(p.paused[host]) {
		p.paused[host] = until
	}
}

// retryAfter reads Retry-After, and retry-after-ms, which some providers add.
func retryAfter(h http.Header) (time.Duration, bool) {
	for _, form := range []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}} {
		if n, err := strconv.ParseFloat(h.Get(form.name), 64); err == nil && n >= 0 && !math.IsInf(n, 0) {
			return time.Duration(min(n, float64(MaxPause/form.unit)) * float64(form.unit)), true
		}
	}
	if at, err := http.ParseTime(h.Get("Retry-After")); err == nil {
		return max(time.Until(at), 0), true
	}
	return 0, false
}

// memo remembers responses between the tries of an activation. It evicts the least recently
// used.
type memo struct {
	mu      sync.Mutex
	entries map[string]*list.Element
	order   list.List                  // of *memoEntry, the least recently used first
	tries   map[string]map[string]bool // the keys of entries, by try
	bytes   int
}

type memoEntry struct {
	key, try string
	cacheKey string
	record   *record
}

func (e *memoEntry) bytes() int {
	return len(e.key) + len(e.try) + len(e.record.encoded)*2 + 256
}

func (m *memo) get(key string) *record {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entries[key]
	if e == nil {
		return nil
	}
	m.order.MoveToBack(e)
	return e.Value.(*memoEntry).record
}

// put remembers what a try has left.
func (m *memo) put(prefix, try, cacheKey string, rec *record) {
	if m == nil {
		return
	}
	entry := &memoEntry{key: prefix + cacheKey, try: try, cacheKey: cacheKey, record: rec}
	if entry.bytes() > MaxMemoBytes {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if old := m.entries[entry.key]; old != nil {
		m.remove(old)
	}
	m.entries[entry.key] = m.order.PushBack(entry)
	m.bytes += entry.bytes()
	if m.tries[try] == nil {
		m.tries[try] = map[string]bool{}
	}
	m.tries[try][entry.key] = true
	for m.bytes > MaxMemoBytes || len(m.entries) > MaxMemoEntries {
		m.remove(m.order.Front())
	}
}

func (m *memo) remove(e *list.Element) {
	entry := m.order.Remove(e).(*memoEntry)
	delete(m.entries, entry.key)
	m.bytes -= entry.bytes()
	delete(m.tries[entry.try], entry.key)
	if len(m.tries[entry.try]) == 0 {
		delete(m.tries, entry.try)
	}
}

// of returns what earlier tries of the same activation have left, by cache key.
func (m *memo) of(try string) map[string]*record {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	found := map[string]*record{}
	for key := range m.tries[try] {
		entry := m.entries[key].Value.(*memoEntry)
		found[entry.cacheKey] = entry.record
	}
	return found
}
