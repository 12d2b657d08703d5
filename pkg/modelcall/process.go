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

// MaxPause bounds the pause of a host, whatever its Retry-After says.
const MaxPause = time.Minute

// defaultPause is the pause of a host that is overloaded and does not say for how long.
const defaultPause = time.Second

// Options are the options of a [Process].
type Options struct {
	MaxCalls  int               // bound of the calls in flight; 0 is DefaultMaxCalls
	NoMemo    bool              // turns the memo of responses off
	Transport http.RoundTripper // nil: a transport of this package
}

// Process is the state that the model calls of an agent share in a worker process: the transport,
// the bound on calls in flight, the pauses that hosts have asked for, and the memo of responses.
type Process struct {
	transport http.RoundTripper
	slots     chan struct{}
	memo      *memo // nil if it is off

	mu     sync.Mutex
	paused map[string]time.Time // the end of the pause, by host
}

// NewProcess returns a Process. Create one for each agent in a worker process.
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

// defaultTransport is the transport of all agents in the process that bring none. It has the
// settings of http.DefaultTransport, but keeps as many idle connections to a host as there may be
// calls.
var defaultTransport = sync.OnceValue(func() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 4*DefaultMaxCalls, DefaultMaxCalls
	return t
})

// lentKey is the context key of the slot of a call. Calls within that call may use the slot.
type lentKey struct{ process *Process }

// lend returns a context whose calls may use the slot of the current call.
func (p *Process) lend(ctx context.Context) context.Context {
	return context.WithValue(ctx, lentKey{p}, make(chan struct{}, 1))
}

// acquire waits until a call to host may be made. The caller must call release.
func (p *Process) acquire(ctx context.Context, host string) (release func(), err error) {
	lent, _ := ctx.Value(lentKey{p}).(chan struct{}) // if it is nil, its case below is never chosen
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
		<-taken // the host was paused meanwhile: free the slot for calls to other hosts
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

// pause returns how much longer the host must not be called.
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

// statusOverloaded is the status with which some providers say that they are overloaded.
const statusOverloaded = 529

// pauseIfAsked pauses the host if its response asks for it.
func (p *Process) pauseIfAsked(host string, resp *http.Response) {
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

// retryAfter reads Retry-After, or retry-after-ms, which some providers send.
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

// memo remembers responses between the tries of an activation. It evicts the least recently used
// ones.
type memo struct {
	mu      sync.Mutex
	entries map[string]*list.Element
	order   list.List                  // of *memoEntry, least recently used first
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

// put remembers a response of a try.
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

// of returns the responses that earlier tries of the same attempt have left, by cache key.
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
