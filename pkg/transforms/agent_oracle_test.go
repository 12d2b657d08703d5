package transforms

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
	"github.com/beamagents/beamagents-go/pkg/memory"
	"github.com/beamagents/beamagents-go/pkg/replay"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// oracle computes what RunAgent must leave. It uses pkg/activation, without bundles, sessions and
// timers: it takes the inputs of a key one after the other, runs due timers at their time, and
// keeps the state in memory, without writing or reading it.
type oracle struct {
	rules *activation.Rules
	limit time.Duration
	keys  map[string]*oracleKey
}

func newOracle(params AgentParams) (*oracle, error) {
	params.Name = cmp.Or(params.Name, "test")
	p, err := params.common()
	if err != nil {
		return nil, err
	}
	rules := p.Rules()
	return &oracle{rules: &rules, limit: p.ActivationTimeout, keys: map[string]*oracleKey{}}, nil
}

// oracleKey is a key and what has gone out for it.
type oracleKey struct {
	activation.Key

	rules   *activation.Rules
	limit   time.Duration
	memory  *memory.Memory
	cache   *replay.Cache
	waiting []*runtimepb.DeferredEvent
	effects []activation.Effect
}

func (o *oracle) key(name string) *oracleKey {
	k := o.keys[name]
	if k == nil {
		k = &oracleKey{rules: o.rules, limit: o.limit}
		k.bind([]byte(name), new(runtimepb.KeyControl))
		o.keys[name] = k
	}
	return k
}

func (k *oracleKey) bind(name []byte, control *runtimepb.KeyControl) {
	k.Key = activation.Key{
		Entity: name, Control: control, Deferred: k,
		Memory: func() (*memory.Memory, error) {
			if k.memory == nil {
				k.memory = memory.New(nil, 0)
			}
			return k.memory, nil
		},
		Cache: func() (*replay.Cache, error) {
			if k.cache == nil {
				k.cache = replay.New(nil, 0)
			}
			return k.cache, nil
		},
		Stored: func() (*pb.MemoryBlob, *pb.LlmCacheBlob, error) { return k.memoryBlob(), k.cacheBlob(), nil },
		Call: func(f func(context.Context)) *activation.Failure {
			result, text := isolate.Run(context.Background(), k.limit, f)
			return activation.FailureOf(result, text, k.limit)
		},
	}
}

func (k *oracleKey) memoryBlob() *pb.MemoryBlob {
	if k.memory == nil || k.memory.Empty() {
		return nil
	}
	return k.memory.Blob()
}

func (k *oracleKey) cacheBlob() *pb.LlmCacheBlob {
	if k.cache == nil || k.cache.Empty() {
		return nil
	}
	return k.cache.Blob()
}

// copied returns a copy of the key that continues without k.
func (k *oracleKey) copied() *oracleKey {
	c := &oracleKey{rules: k.rules, limit: k.limit, waiting: slices.Clone(k.waiting), effects: slices.Clip(k.effects)}
	c.bind(k.Entity, proto.CloneOf(k.Control))
	c.Changed = k.Changed
	if k.memory != nil {
		c.memory = memory.New(proto.CloneOf(k.memory.Blob()), 0)
	}
	if k.cache != nil {
		c.cache = replay.New(proto.CloneOf(k.cache.Blob()), 0)
	}
	return c
}

// Events, Add and Clear make the key its own bag of deferred events.
func (k *oracleKey) Events() ([]*runtimepb.DeferredEvent, error) { return slices.Clone(k.waiting), nil }

func (k *oracleKey) Add(e *runtimepb.DeferredEvent) error {
	k.waiting = append(k.waiting, e)
	return nil
}

func (k *oracleKey) Clear() { k.waiting = nil }

func (k *oracleKey) step(step activation.Step, err error) error {
	k.effects = append(k.effects, step.Effects...)
	return err
}

func (k *oracleKey) element(env *pb.AgentEnvelope) error {
	return k.step(k.rules.Envelope(&k.Key, proto.CloneOf(env)))
}

// advance runs what is due at a time, in the order of time. An element that was there first comes
// before a deadline and a TTL.
func (k *oracleKey) advance(ms int64) error {
	for {
		due, suspended := activation.Deadline(k.Control)
		mark, idle := k.rules.TTLMark(k.Control)
		var err error
		switch {
		case activation.Rest(k.Control):
			err = k.step(k.rules.Drain(&k.Key))
		case suspended && due <= ms && (!idle || due <= mark):
			err = k.step(k.rules.Timeout(&k.Key))
		case idle && mark <= ms:
			err = k.step(k.rules.Idle(&k.Key))
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// apply applies an operation.
func (o *oracle) apply(op historyOp) error {
	var errs []error
	for _, env := range op.bundle {
		errs = append(errs, o.key(string(env.GetEntityKey())).element(env))
	}
	if op.advanceMS > 0 {
		for _, name := range slices.Sorted(maps.Keys(o.keys)) {
			errs = append(errs, o.keys[name].advance(op.advanceMS))
		}
	}
	return errors.Join(errs...)
}

// intents are those that the key has emitted.
func (k *oracleKey) intents() (all []*pb.ToolIntent) {
	for _, e := range k.effects {
		if e.Intent != nil {
			all = append(all, e.Intent)
		}
	}
	return all
}

// records are the records of keys, by key and kind, in their order.
type records map[string][]string

func (r records) add(key, kind string, atMS int64, content []byte) {
	r[key+" "+kind] = append(r[key+" "+kind], fmt.Sprintf("@%d %x", atMS, content))
}

func marshaled(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // there is no message without an encoding in these tests
	}
	return b
}

func (r records) addEffect(key string, e activation.Effect) {
	switch {
	case e.Intent != nil:
		r.add(key, "intents", e.AtMS, marshaled(e.Intent))
	case e.Trace != nil:
		r.add(key, "traces", e.AtMS, marshaled(e.Trace))
	case e.Snapshot != nil:
		r.add(key, "snapshots", e.AtMS, marshaled(e.Snapshot))
	case e.Error != nil:
		r.add(key, "errors", e.AtMS, marshaled(e.Error))
	default:
		r.add(key, "outputs", e.AtMS, e.Output)
	}
}

// addState adds the cells of a key. It leaves out the fields that belong to timers, and the stamp
// of the version, which the oracle does not set.
func (r records) addState(key string, control *runtimepb.KeyControl, mem *pb.MemoryBlob, cache *pb.LlmCacheBlob, waiting []*runtimepb.DeferredEvent) {
	control = proto.CloneOf(control)
	control.TtlArmedMs, control.StateSchemaVersion = 0, 0
	r.add(key, "control", 0, marshaled(control))
	if mem != nil {
		r.add(key, "memory", 0, marshaled(mem))
	}
	if cache != nil {
		r.add(key, "llm_cache", 0, marshaled(cache))
	}
	for _, e := range slices.SortedFunc(slices.Values(waiting), func(a, b *runtimepb.DeferredEvent) int { return cmp.Compare(a.GetArrival(), b.GetArrival()) }) {
		r.add(key, "deferred", 0, marshaled(e))
	}
}

func (o *oracle) records() records {
	r := records{}
	for name, k := range o.keys {
		for _, e := range k.effects {
			r.addEffect(name, e)
		}
		if k.Changed { // a key whose inputs have all failed has no state
			r.addState(name, k.Control, k.memoryBlob(), k.cacheBlob(), k.waiting)
		}
	}
	return r
}

// difference returns the first difference to the wanted records, or "".
func (r records) difference(want records) string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(r)), maps.Keys(want))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		for i := range max(len(r[name]), len(want[name])) {
			if g, w := at(r[name], i), at(want[name], i); g != w {
				return fmt.Sprintf("%s, number %d:\ngot  %.600s\nwant %.600s", name, i, g, w)
			}
		}
	}
	return ""
}
