package beamtest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/typex"
)

// Timer is a timer that is set, or fires.
type Timer struct {
	Key         string
	Window      typex.Window
	Family, Tag string
	// FireMS is when it is due, in ms. It is 0 for one that the SDK fires because it was
	// cleared.
	FireMS int64
	// EventTime is what OnTimer gets: the output timestamp. That is FireMS unless the timer
	// was set otherwise, and the end of time for one without.
	EventTime typex.EventTime
}

// Context is what OnTimer gets, too.
func (t Timer) Context() timers.Context { return timers.Context{Family: t.Family, Tag: t.Tag} }

type timerID struct{ family, tag string }

// timerChanges is what a bundle did to the timers of a key.
type timerChanges struct {
	modified map[timerID]timers.TimerMap // the last of each
	inserted []timers.TimerMap           // those that may fire within the bundle
}

// timerProvider is that of a call. As in the SDK, only the window is its own: the key is
// that of the call which runs when it is used. It is not locked, as the SDK's is not.
type timerProvider struct {
	kit    *Kit
	window typex.Window
}

// Set is timers.Provider's.
func (p *timerProvider) Set(t timers.TimerMap) {
	b := p.kit.bundle
	if b == nil || b.current == nil {
		panic(errors.New("beamtest: a timer is set before the first element of a bundle: the SDK has no key for it"))
	}
	if _, ok := p.kit.families[t.Family]; !ok {
		panic(fmt.Errorf("beamtest: the DoFn has no timer family %q", t.Family))
	}
	b.mustStep()
	b.overlay(scope{*b.current, p.window}).insert(t)
}

func (c *timerChanges) insert(t timers.TimerMap) {
	if c.modified == nil {
		c.modified = map[timerID]timers.TimerMap{}
	}
	c.modified[timerID{t.Family, t.Tag}] = t
	c.inserted = append(c.inserted, t)
}

// changed reports whether another timer has taken the place of t.
func (c *timerChanges) changed(t timers.TimerMap) bool {
	now, ok := c.modified[timerID{t.Family, t.Tag}]
	return ok && now != t
}

// The order in which the SDK fires timers of a key: cleared ones first.
func compareTimers(a, b timers.TimerMap) int {
	if a.Clear != b.Clear {
		if a.Clear {
			return -1
		}
		return 1
	}
	return cmp.Or(
		cmp.Compare(a.FireTimestamp, b.FireTimestamp), cmp.Compare(a.HoldTimestamp, b.HoldTimestamp),
		cmp.Compare(a.Family, b.Family), cmp.Compare(a.Tag, b.Tag),
	)
}

// before takes the next timer out of those set in the bundle that the SDK fires before t.
func (c *timerChanges) before(t timers.TimerMap) (timers.TimerMap, bool) {
	for len(c.inserted) > 0 {
		first := slices.MinFunc(c.inserted, compareTimers)
		if compareTimers(first, t) > 0 {
			return timers.TimerMap{}, false
		}
		at := slices.Index(c.inserted, first)
		c.inserted = slices.Delete(c.inserted, at, at+1)
		if c.changed(first) {
			continue
		}
		c.modified[timerID{first.Family, first.Tag}] = timers.TimerMap{Family: first.Family, Tag: first.Tag, Clear: true}
		return first, true
	}
	return timers.TimerMap{}, false
}

// Timers are the timers of a key that are set, in the order in which they fire.
func (k *Kit) Timers(key string) []Timer {
	s := k.scope(key)
	var list []Timer
	for _, t := range slices.SortedFunc(maps.Values(k.timers[s]), compareTimers) {
		list = append(list, newTimer(s, t))
	}
	return list
}

func newTimer(s scope, t timers.TimerMap) Timer {
	return Timer{
		Key: s.key, Window: s.window, Family: t.Family, Tag: t.Tag,
		FireMS: int64(t.FireTimestamp), EventTime: t.HoldTimestamp,
	}
}

// maxRounds bounds timers that set themselves again, at a time that has passed.
const maxRounds = 1000

var errNeverRest = fmt.Errorf("beamtest: timers are set again %d times at a time that has passed", maxRounds)

// Fire delivers the timers of all keys that are due at a time in ms, until none is. The
// timers of a key that are due at once are one bundle. In a bundle of [Kit.StartBundle]
// they are part of that, with those of all other keys; what is set there fires with the
// next one, unless the SDK fires it before another timer of its key. If a call returns an
// error, the writes of its bundle are dropped, its timers stay, and Fire returns the error.
func (k *Kit) Fire(atMS int64, onTimer func(t Timer, sp state.Provider, tp timers.Provider) error) error {
	if b := k.bundle; b != nil {
		for _, s := range k.due(atMS) {
			_ = b.do(func() error { return b.fire(s, atMS, onTimer) })
		}
		return b.err
	}
	k.resetRPCs()
	for range maxRounds {
		scopes := k.due(atMS)
		if len(scopes) == 0 {
			return nil
		}
		for _, s := range scopes {
			k.begin()
			b := k.bundle
			_ = b.do(func() error { return b.fire(s, atMS, onTimer) })
			if err := k.FinishBundle(); err != nil {
				return err
			}
		}
	}
	return errNeverRest
}

// due are the scopes with timers that are due, in order.
func (k *Kit) due(atMS int64) (scopes []scope) {
	for s, all := range k.timers {
		for _, t := range all {
			if int64(t.FireTimestamp) <= atMS {
				scopes = append(scopes, s)
				break
			}
		}
	}
	slices.SortFunc(scopes, func(a, b scope) int {
		return cmp.Or(cmp.Compare(a.window.MaxTimestamp(), b.window.MaxTimestamp()), cmp.Compare(a.key, b.key))
	})
	return scopes
}

// fire does what the SDK does with the timers that a runner sends: those that were set in
// the bundle in the meantime come in between.
func (b *bundle) fire(s scope, atMS int64, onTimer func(Timer, state.Provider, timers.Provider) error) error {
	o := b.overlay(s)
	call := func(t timers.TimerMap) error {
		return b.run(s, func(sp state.Provider, tp timers.Provider) error { return onTimer(newTimer(s, t), sp, tp) })
	}
	rounds := 0
	for _, t := range slices.SortedFunc(maps.Values(b.kit.timers[s]), compareTimers) {
		if int64(t.FireTimestamp) > atMS {
			continue
		}
		for earlier, ok := o.before(t); ok; earlier, ok = o.before(t) {
			if rounds++; rounds > maxRounds {
				return errNeverRest
			}
			if err := call(earlier); err != nil {
				return err
			}
		}
		if o.changed(t) {
			continue
		}
		// The runner has given the timer away; only a call can set it again.
		if o.modified == nil {
			o.modified = map[timerID]timers.TimerMap{}
		}
		o.modified[timerID{t.Family, t.Tag}] = timers.TimerMap{Family: t.Family, Tag: t.Tag, Clear: true}
		if err := call(t); err != nil {
			return err
		}
	}
	return nil
}
