package modelcall

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// ErrTokenBudget says that the responses of an activation have more tokens than its budget. The
// call that exceeds the budget fails, and so does every later call.
var ErrTokenBudget = errors.New("the token budget is exceeded")

// Config is what a runtime passes to [Begin].
type Config struct {
	Key     []byte
	Seq     int64
	Attempt uint32 // how often the activation was resumed
	// Try returns bytes that identify the attempt: equal for each try of it, and different for
	// every other attempt.
	Try func() []byte
	// Scope separates the jobs and agents that share a process.
	Scope string

	// Cache opens the replay cache of the key and sets it to the time of the activation. An error
	// of it fails the bundle. If Cache is nil, the cache is empty.
	Cache     func() (*replay.Cache, error)
	Process   *Process // nil: the activation gets its own
	Hooks     Hooks
	MaxTokens int64 // 0 is no limit
	// Elapsed returns how long the activation has been running, in ms. If it is nil, that is
	// always 0.
	Elapsed func() int64
	// Ended is the error of calls after the end of the activation.
	Ended error
}

// Calls makes the model calls of one activation. Several goroutines may use it at once.
type Calls struct {
	Config

	scope  scope
	prefix string
	try    string
	ctx    context.Context //nolint:containedctx // it ends with the activation
	cancel context.CancelFunc

	mu       sync.Mutex
	cache    *replay.Cache
	slots    map[string]map[uint32]bool // the repetitions in use, by the cache key of the first one
	done     []Call
	misses   []miss
	arrivals int
	tokens   int64
	err      error // ErrTokenBudget, once the budget is exceeded
	stateErr error
	ended    bool
	left     Left     // the counts so far
	secrets  []string // without duplicates
}

// Begin starts the model calls of an activation.
func Begin(c Config) *Calls {
	if c.Process == nil {
		c.Process = NewProcess(Options{NoMemo: true})
	}
	if c.Cache == nil {
		c.Cache = func() (*replay.Cache, error) { return replay.New(nil, 0), nil }
	}
	if c.Elapsed == nil {
		c.Elapsed = func() int64 { return 0 }
	}
	if c.Ended == nil {
		c.Ended = errors.New("modelcall: the activation has ended")
	}
	if c.Try == nil {
		c.Try = func() []byte { return nil }
	}
	calls := &Calls{Config: c, scope: scope{c.Key, c.Seq, c.Attempt}, prefix: c.Scope + "\x00", slots: map[string]map[uint32]bool{}}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %x %d %d %x", c.Scope, c.Key, c.Seq, c.Attempt, c.Try())
	calls.try = hex.EncodeToString(sum.Sum(nil))
	calls.ctx, calls.cancel = context.WithCancel(context.Background())
	return calls
}

// Call is a model call that has succeeded.
type Call struct {
	Key    string // the cache key
	HTTP   bool
	Hit    bool // answered from the replay cache
	Usage  Usage
	Server Server
	// StartMS is when the call began, in ms since the start of the activation. DurationMS is how
	// long it took, in ms.
	StartMS, DurationMS int64
	// Differs reports that the cache holds only the digest of an earlier response, and that this
	// response has another digest. [Left.Commit] sets it.
	Differs bool

	record *record // nil for a hit and for a response that is not stored
	number int     // the number of the request, in the order in which they began
}

// Left is the result of the model calls of an activation.
type Left struct {
	Calls []Call // sorted by cache key
	// NotStored counts responses that could not be stored, because they are too long or a hook
	// has failed.
	NotStored int
	// Broken are the token counts of responses that were cut short, as far as they had been
	// received.
	Broken []Usage
	// Evicted counts the stored responses that were evicted to make room for these. [Left.Commit]
	// sets it.
	Evicted int
	// Diverged has one text for each request that differs from the recorded request in its place.
	// An earlier try, or an attempt before the last suspension, has recorded it. The text says
	// where they differ.
	Diverged []string
	// Err is ErrTokenBudget or nil. It fails the activation.
	Err error
	// StateErr is the error of Config.Cache. It fails the bundle.
	StateErr error
	// Secrets are the credentials in the requests, the longest first. Remove them from every text
	// of the agent.
	Secrets []string
}

// End cancels the running calls and refuses new ones.
func (c *Calls) End() Left {
	c.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.ended = true
		c.left.Err, c.left.StateErr = c.err, c.stateErr
		c.left.Calls = c.done
		slices.SortFunc(c.left.Calls, func(a, b Call) int { return strings.Compare(a.Key, b.Key) })
		c.left.Diverged = c.diverged()
		slices.SortFunc(c.secrets, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		c.left.Secrets = c.secrets
	}
	return c.left
}

// Commit stores the responses in the replay cache, in the order of their cache keys. c is the
// cache that [Config].Cache opened, with the time it was set to.
func (l *Left) Commit(c *replay.Cache) error {
	for i := range l.Calls {
		call := &l.Calls[i]
		if call.Hit {
			c.Get(call.Key) // marks the entry as used
			continue
		}
		if call.record == nil {
			continue
		}
		stored, err := c.PutRecord(call.Key, call.record.encoded, call.record.content)
		if err != nil {
			return fmt.Errorf("modelcall: %w", err)
		}
		call.Differs = stored.Differs
		l.Evicted += stored.Evicted
	}
	return nil
}

// turn is a call in progress: the n-th repetition of a request.
type turn struct {
	identity

	calls   *Calls
	base    string
	n       uint32
	key     string
	number  int
	startMS int64
	http    bool
	server  Server
	settled bool
}

// admit begins a call. stored is the response in the cache, or nil.
func (c *Calls) admit(id identity) (t *turn, stored *runtimepb.StoredResponse, err error) {
	base := id.key(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return nil, nil, c.Ended
	case c.err != nil:
		return nil, nil, c.err
	}
	if c.cache == nil && c.stateErr == nil {
		switch cache, err := c.Cache(); {
		case err == nil:
			c.cache = cache
		case errors.Is(err, c.Ended):
			return nil, nil, c.Ended
		default:
			c.stateErr = fmt.Errorf("modelcall: open the replay cache: %w", err)
		}
	}
	if c.stateErr != nil {
		return nil, nil, c.stateErr
	}
	if c.slots[base] == nil {
		c.slots[base] = map[uint32]bool{}
	}
	// A request that failed does not count as a repetition: a retry takes its number.
	var n uint32
	for c.slots[base][n] {
		n++
	}
	c.slots[base][n] = true
	t = &turn{identity: id, calls: c, base: base, n: n, key: id.key(n), number: c.arrivals, startMS: c.Elapsed()}
	c.arrivals++
	if entry, ok := c.cache.Peek(t.key); ok {
		m := new(runtimepb.StoredResponse)
		if proto.Unmarshal(entry, m) == nil {
			return t, m, nil
		}
	}
	return t, nil, nil
}

// found is the answer to a call.
type found struct {
	response

	usage  Usage
	record *record // the record of an earlier try, if that is the answer
	hit    bool    // the answer is from the replay cache
}

// find returns the answer from the cache or from an earlier try, or nil. The caller must not hold
// the lock, because hooks are the agent's code.
func (t *turn) find(stored *runtimepb.StoredResponse) *found {
	if stored != nil {
		if r, err := openRecord(stored, t.calls.Hooks); err == nil {
			return &found{response: r, usage: storedUsage(stored.GetUsage(), t.model), hit: true}
		}
	}
	rec := t.calls.Process.memo.get(t.calls.prefix + t.key)
	if rec == nil {
		return nil
	}
	r, err := openRecord(rec.message, t.calls.Hooks)
	if err != nil {
		return nil
	}
	return &found{response: r, usage: storedUsage(rec.message.GetUsage(), t.model), record: rec}
}

// given returns a response of the provider as an answer.
func (t *turn) given(r response) found {
	return found{response: r, usage: readUsage(r, t.model)}
}

// failed ends a call that failed and frees its repetition number.
func (t *turn) failed() {
	c := t.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.settled {
		t.settled = true
		delete(c.slots[t.base], t.n)
	}
}

// answered ends a call that has succeeded. The error is ErrTokenBudget, or that of an ended
// activation.
func (t *turn) answered(f found) error {
	c, rec := t.calls, f.record
	asked := !f.hit && rec == nil // the provider has answered
	if asked && len(f.body) <= MaxResponseBytes {
		var err error
		// The lock is not held, because hooks are the agent's code.
		if rec, err = newRecord(f, c.Seq, t.parts(), c.Hooks); err == nil {
			c.Process.memo.put(c.prefix, c.try, t.key, rec)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.settled {
		return nil
	}
	t.settled = true
	if c.ended {
		return c.Ended
	}
	if asked && rec == nil {
		c.left.NotStored++
	}
	if asked && !t.fresh && len(c.misses) < maxMisses {
		c.misses = append(c.misses, miss{t.number, t.parts()})
	}
	c.done = append(c.done, Call{
		Key: t.key, HTTP: t.http, Hit: f.hit, Usage: f.usage, Server: t.server, StartMS: t.startMS, DurationMS: c.Elapsed() - t.startMS,
		record: rec, number: t.number,
	})
	c.charge(f.usage)
	return c.err
}

// charge adds tokens to the budget. The caller holds the lock.
func (c *Calls) charge(u Usage) {
	c.tokens += u.Input + u.Output
	if c.err == nil && c.MaxTokens > 0 && c.tokens > c.MaxTokens {
		c.err = fmt.Errorf("%w: %d tokens, the limit is %d", ErrTokenBudget, c.tokens, c.MaxTokens)
	}
}

// broke ends a call whose response was cut short and frees its repetition number. It charges the
// tokens that the part tells. The error is ErrTokenBudget, or that of an ended activation.
func (t *turn) broke(part response) error {
	usage := readUsage(part, t.model)
	t.failed()
	c := t.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if usage.Known && !c.ended {
		c.left.Broken = append(c.left.Broken, usage)
		c.charge(usage)
	}
	return c.err
}

// notStored ends a call whose response was passed on but cannot be recorded.
func (t *turn) notStored() error {
	c := t.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.settled {
		t.settled = true
		c.left.NotStored++
	}
	return c.err
}

// start waits until a call may be made. When the activation ends, the context of the call is
// cancelled and its slot is released, even if the agent's code still runs.
func (c *Calls) start(ctx context.Context, host string) (_ context.Context, done func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	stopWaiting := context.AfterFunc(c.ctx, cancel)
	release, err := c.Process.acquire(ctx, host)
	stopWaiting()
	if err != nil {
		cancel()
		return nil, nil, c.endedOr(err)
	}
	end := sync.OnceFunc(func() {
		release()
		cancel()
	})
	stop := context.AfterFunc(c.ctx, end)
	return ctx, func() { stop(); end() }, nil
}

// Request is a model call that is not made over HTTP. Messages, Tools and Params are values that
// canonjson takes.
type Request struct {
	Model                   string
	Messages, Tools, Params any
	Fresh                   bool
}

// Call returns the recorded response of a request, or calls model and records what it returns. It
// also returns the cache key.
func (c *Calls) Call(ctx context.Context, r Request, model func(context.Context) ([]byte, error)) (body []byte, key string, err error) {
	id, err := c.scope.identifyCall(r)
	if err != nil {
		return nil, "", err
	}
	t, stored, err := c.admit(id)
	if err != nil {
		return nil, "", err
	}
	defer t.failed() // also if model panics
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	answer := t.find(stored)
	if answer == nil {
		body, err := c.ask(ctx, model)
		if err != nil {
			return nil, "", c.endedOr(err)
		}
		answer = new(t.given(response{body: body}))
	}
	if err := t.answered(*answer); err != nil {
		return nil, "", err
	}
	return answer.body, t.key, nil
}

// ask calls model once the process allows it.
func (c *Calls) ask(ctx context.Context, model func(context.Context) ([]byte, error)) ([]byte, error) {
	ctx, done, err := c.start(ctx, "")
	if err != nil {
		return nil, err
	}
	defer done()
	return model(c.Process.lend(ctx))
}

// Client returns an HTTP client whose requests are recorded and replayed. Several goroutines may
// use it at once.
func (c *Calls) Client() *http.Client { return &http.Client{Transport: &transport{c}} }

// miss is a request that was not answered from the cache or the memo.
type miss struct {
	number int
	parts  []*runtimepb.RequestPart
}

// Bounds of the comparison.
const (
	maxMisses        = 64
	maxDivergedPaths = 4
)

// diverged compares requests that had no recorded answer with recorded requests that were not
// made.
func (c *Calls) diverged() (texts []string) {
	if len(c.misses) == 0 || c.cache == nil {
		return nil
	}
	used, hits := map[string]bool{}, 0
	for _, call := range c.done {
		used[call.Key] = true
		if call.Hit {
			hits++
		}
	}
	// An earlier try of the same attempt has made these requests, so this try must make them,
	// too.
	var open [][]*runtimepb.RequestPart
	memo := c.Process.memo.of(c.try)
	keys := make([]string, 0, len(memo))
	for key := range memo {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if !used[key] {
			open = append(open, memo[key].message.GetRequest())
		}
	}
	certain := len(open)
	for _, key := range c.cache.Keys() {
		if used[key] || memo[key] != nil || c.Attempt == 0 {
			continue
		}
		stored, _ := c.cache.Peek(key)
		m := new(runtimepb.StoredResponse)
		if proto.Unmarshal(stored, m) == nil && m.GetSeq() == c.Seq {
			open = append(open, m.GetRequest())
		}
	}
	slices.SortFunc(c.misses, func(a, b miss) int { return a.number - b.number })
	taken := make([]bool, len(open))
	for _, m := range c.misses {
		best, paths := -1, []string(nil)
		for i, recorded := range open {
			if taken[i] || len(recorded) > 0 && recorded[0].GetPath() == freshPart {
				continue
			}
			differ := differences(recorded, m.parts)
			if len(differ) > 0 && (best < 0 || len(differ) < len(paths)) {
				best, paths = i, differ
			}
		}
		// An agent that continues from its snapshot makes new requests. An agent that starts over
		// gets other answers from the cache, or makes nearly the same requests.
		if best < 0 || best >= certain && hits == 0 && len(paths) > 1 {
			continue
		}
		taken[best] = true
		if more := len(paths) - maxDivergedPaths; more > 0 {
			paths = append(paths[:maxDivergedPaths:maxDivergedPaths], "and "+strconv.Itoa(more)+" more")
		}
		texts = append(texts, "request "+strconv.Itoa(m.number+1)+": "+strings.Join(paths, ", "))
	}
	return texts
}

// differences returns the paths at which two requests differ, or nil if the second one only adds
// to the first.
func differences(recorded, asked []*runtimepb.RequestPart) (paths []string) {
	digests := map[string]uint32{}
	for _, p := range recorded {
		digests[p.GetPath()] = p.GetDigest()
	}
	added := []string(nil)
	for _, p := range asked {
		digest, ok := digests[p.GetPath()]
		delete(digests, p.GetPath())
		switch {
		case !ok:
			added = append(added, p.GetPath())
		case digest != p.GetDigest():
			paths = append(paths, p.GetPath())
		}
	}
	for path := range digests {
		paths = append(paths, path)
	}
	if len(paths) == 0 {
		return nil
	}
	return slices.Sorted(slices.Values(append(paths, added...)))
}
