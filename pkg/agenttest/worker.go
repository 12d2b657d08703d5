package agenttest

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/modelcall"
	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// build is an agent with its options, as a pipeline holds it.
type build struct {
	params    activation.AgentParams
	agentType reflect.Type
	encoded   []byte
}

func newBuild(p AgentParams) (*build, error) {
	p, err := p.WithDefaults()
	if err != nil {
		return nil, err
	}
	encoded, err := agent.Encode(p.Agent)
	if err != nil {
		return nil, err
	}
	return &build{params: p, agentType: reflect.TypeOf(p.Agent), encoded: encoded}, nil
}

// worker is a worker process with a decoded agent that is set up.
type worker struct {
	t     testing.TB
	build *build
	rules activation.Rules
	limit time.Duration
}

func (b *build) start(t testing.TB) (*worker, error) {
	a, err := agent.Decode(b.agentType, b.encoded)
	if err != nil {
		return nil, err
	}
	transport, err := agent.Prepare(t.Context(), a)
	if err != nil {
		return nil, fmt.Errorf("the Setup of the agent: %w", err)
	}
	p := b.params
	p.Agent = a
	rules := p.Rules()
	rules.Process = modelcall.NewProcess(modelcall.Options{MaxCalls: p.MaxModelCalls, NoMemo: p.NoModelMemo, Transport: transport})
	return &worker{t: t, build: b, rules: rules, limit: p.ActivationTimeout.Truncate(time.Millisecond)}, nil
}

// call runs code of the agent as RunAgent does.
func (w *worker) call(key string) func(func(context.Context)) *activation.Failure {
	return func(f func(context.Context)) *activation.Failure {
		result, text := isolate.Run(w.t.Context(), w.limit, f)
		if result == isolate.Abandoned {
			w.t.Logf("agenttest: key %q: the agent still runs after its time limit of %v; it must return when its context is cancelled", key, w.limit)
		}
		return activation.FailureOf(result, text, w.limit)
	}
}

// input is the input of a step: an encoded envelope, or the tag of a timer.
type input struct {
	build *build
	key   string
	atMS  int64 // the time of the timer or of the envelope
	tag   string
	env   []byte
}

// cells holds the state of a key as a runner stores it. A nil cell is empty.
type cells struct {
	control, memory, cache []byte
	deferred               [][]byte
}

func (c cells) equal(other cells) bool {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && slices.Equal(a, b) }
	return same(c.control, other.control) && same(c.memory, other.memory) && same(c.cache, other.cache) &&
		slices.EqualFunc(c.deferred, other.deferred, same)
}

// keyControl decodes the control message of a key. It is empty for a key without state.
func (c cells) keyControl() (*runtimepb.KeyControl, error) {
	control := new(runtimepb.KeyControl)
	err := proto.Unmarshal(c.control, control)
	return control, err
}

func (c cells) memoryBlob() (*pb.MemoryBlob, error) {
	if c.memory == nil {
		return nil, nil //nolint:nilnil // an empty cell has no blob
	}
	blob := new(pb.MemoryBlob)
	err := proto.Unmarshal(c.memory, blob)
	return blob, err
}

func (c cells) cacheBlob() (*pb.LlmCacheBlob, error) {
	if c.cache == nil {
		return nil, nil //nolint:nilnil // an empty cell has no blob
	}
	blob := new(pb.LlmCacheBlob)
	err := proto.Unmarshal(c.cache, blob)
	return blob, err
}

// session is a key within a bundle. Its state is decoded at first use and encoded at the end.
type session struct {
	stored   cells
	k        activation.Key
	memory   *memory.Memory
	cache    *replay.Cache
	deferred bag
}

func openSession(key string, stored cells) (*session, error) {
	control, err := stored.keyControl()
	if err != nil {
		return nil, err
	}
	s := &session{stored: stored}
	for _, b := range stored.deferred {
		e := new(runtimepb.DeferredEvent)
		if err := proto.Unmarshal(b, e); err != nil {
			return nil, err
		}
		s.deferred.events = append(s.deferred.events, e)
	}
	s.k = activation.Key{
		Entity: []byte(key), Control: control, Deferred: &s.deferred,
		Memory: s.openMemory, Cache: s.openCache, Stored: s.blobs,
	}
	return s, nil
}

func (s *session) openMemory() (*memory.Memory, error) {
	if s.memory == nil {
		blob, err := s.stored.memoryBlob()
		if err != nil {
			return nil, err
		}
		s.memory = memory.New(blob, 0)
	}
	return s.memory, nil
}

func (s *session) openCache() (*replay.Cache, error) {
	if s.cache == nil {
		blob, err := s.stored.cacheBlob()
		if err != nil {
			return nil, err
		}
		s.cache = replay.New(blob, 0)
	}
	return s.cache, nil
}

// blobs returns both blobs as they are stored, or as the end of the bundle will store them.
func (s *session) blobs() (mem *pb.MemoryBlob, cache *pb.LlmCacheBlob, err error) {
	c := s.stored
	if err := s.encodeBlobs(&c); err != nil {
		return nil, nil, err
	}
	if mem, err = c.memoryBlob(); err != nil {
		return nil, nil, err
	}
	cache, err = c.cacheBlob()
	return mem, cache, err
}

func (s *session) encodeBlobs(c *cells) (err error) {
	if s.memory != nil && s.memory.Changed() {
		c.memory = nil
		if !s.memory.Empty() {
			c.memory, err = encode(s.memory.Blob())
		}
	}
	if s.cache != nil && s.cache.Changed() && err == nil {
		c.cache = nil
		if !s.cache.Empty() {
			c.cache, err = encode(s.cache.Blob())
		}
	}
	return err
}

// take runs a step.
func (s *session) take(w *worker, in input) (activation.Step, error) {
	s.k.Call = w.call(in.key)
	switch in.tag {
	case "":
		env := new(pb.AgentEnvelope)
		if err := proto.Unmarshal(in.env, env); err != nil {
			return activation.Step{}, err
		}
		return w.rules.Envelope(&s.k, env)
	case activation.DeadlineTag:
		return w.rules.Timeout(&s.k)
	case activation.TTLTag:
		return w.rules.Idle(&s.k)
	default:
		return w.rules.Drain(&s.k)
	}
}

// cells encodes the state of the key. The session can be used further.
func (s *session) cells() (cells, error) {
	c := s.stored
	control, err := encode(s.k.Control)
	if err != nil {
		return c, err
	}
	if s.k.Changed {
		c.control = control
	} else if !slices.Equal(control, c.control) {
		return c, fmt.Errorf("a step has changed the control of key %q and does not say so", s.k.Entity)
	}
	if err := s.encodeBlobs(&c); err != nil {
		return c, err
	}
	c.deferred = nil
	for _, e := range s.deferred.events {
		b, err := encode(e)
		if err != nil {
			return c, err
		}
		c.deferred = append(c.deferred, b)
	}
	return c, nil
}

// bag holds deferred events.
type bag struct{ events []*runtimepb.DeferredEvent }

// Events returns the events in the order of arrival.
func (b *bag) Events() ([]*runtimepb.DeferredEvent, error) {
	return slices.SortedFunc(slices.Values(b.events), func(x, y *runtimepb.DeferredEvent) int {
		return cmp.Compare(x.GetArrival(), y.GetArrival())
	}), nil
}

// Add adds an event.
func (b *bag) Add(e *runtimepb.DeferredEvent) error {
	b.events = append(b.events, e)
	return nil
}

// Clear removes all events.
func (b *bag) Clear() { b.events = nil }

func encode(m proto.Message) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if b == nil {
		b = []byte{}
	}
	return b, err
}
