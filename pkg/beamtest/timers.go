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

// Timer is a timer that is set or fires.
type Timer struct {
	Key         string
	Window      typex.Window
	Family, Tag string
	// FireMS is when the timer is due, in ms. It is 0 for a timer that the SDK fires because it
	// was cleared.
	FireMS int64
	// EventTime is the time that OnTimer gets, which is the output timestamp of the timer: by
	// default FireMS, and the end of time for a timer without an output timestamp.
	EventTime typex.EventTime
}

// Context returns the timers.Context that OnTimer gets.
func (t Timer) Context() timers.Context { return timers.Context{Family: t.Family, Tag: t.Tag} }

type timerID struct{ family, tag string }

// timerChanges are the changes that a bundle has made to the timers of a key.
type timerChanges struct {
	modified map[timerID]timers.TimerMap // the latest change of each timer
	inserted []timers.TimerMap           // timers that may fire within the bundle
}

// timerProvider is the timers.Provider of a call. As in the SDK, only the window belongs to the
// provider: the key is that of the call that runs when it is used. It is not locked, as in the
// SDK.
type timerProvider struct {
	kit    *Kit
	window typex.Window
}

// Set implements timers.Provider.
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

// changed reports whether a later change has replaced t.
func (c *timerChanges) changed(t timers.TimerMap) bool {
	now, ok := c.modified[timerID{t.Family, t.Tag}]
	return ok && now != t
}

// compareTimers orders the timers of a key as the SDK fires them: cleared ones first.
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

// before removes and returns the next timer that was set in the bundle and that the SDK fires
// before t.
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

// Timers returns the timers of a key that are set, in the order in which they fire.
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

// maxRounds bounds timers that set themselves again for a time that has passed.
const maxRounds = 1000

var errNeverRest = fmt.Errorf("beamtest: timers are set again %d times at a time that has passed", maxRounds)

// Fire fires the timers of all keys that are due at atMS, in ms, until no due timer is left. The
// timers of a key that are due together are one bundle. In a bundle of [Kit.StartBundle] all of
// them are part of that bundle; a timer that is set there fires with the next bundle, unless the
// SDK fires it before another timer of its key. If a call returns an error, Fire drops the writes
// of its bundle, keeps its timers, and returns the error.
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

// due returns the scopes with timers that are due, in order.
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

// fire fires timers of a key as the SDK does with timers from a runner: timers that were set in
// the bundle meanwhile fire in between.
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
		// The runner has handed the timer over, so only a call can set it again.
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
