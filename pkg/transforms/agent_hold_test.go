package transforms

import (
	"fmt"
	"slices"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/mtime"
)

// holds returns the timers of a key that hold the watermark, with the time at which they hold it.
func (k *agentKit) holds(key string) (all []string) {
	for _, t := range k.Timers(key) {
		if t.EventTime <= mtime.EndOfGlobalWindowTime { // the end of time is for a timer without an output timestamp
			all = append(all, fmt.Sprintf("%s@%d", t.Tag, t.EventTime.Milliseconds()))
		}
	}
	return all
}

// With HoldWatermark, the watermark waits at the deadline of a suspension. Before the timer of the
// deadline is set, the watermark waits at the earliest element of the key. Without HoldWatermark it
// does not wait.
func TestAgentHoldWatermark(t *testing.T) {
	for _, test := range []struct {
		hold        bool
		concurrency int
		bundle      []string // that holds after the bundle, and after wake
		wake        []string
	}{
		{true, 1, []string{"deadline@7000"}, []string{"deadline@7000"}},
		{true, 4, []string{"wake@1500"}, []string{"deadline@7000"}},
		{false, 1, nil, nil},
		{false, 4, nil, nil},
	} {
		k := newAgentKit(t, AgentParams{Concurrency: test.concurrency, HoldWatermark: test.hold})
		k.run(
			eventFor("a", 2000, script{Then: "suspend", Timeout: 5000}),
			eventFor("a", 1500, script{}), // is deferred
			eventFor("a", 1700, script{}),
		)
		bundle := k.holds("a")
		k.advance(2000)
		if wake := k.holds("a"); !slices.Equal(bundle, test.bundle) || !slices.Equal(wake, test.wake) {
			t.Errorf("hold %v, concurrency %d: after the bundle %q, want %q; after wake %q, want %q",
				test.hold, test.concurrency, bundle, test.bundle, wake, test.wake)
		}
		k.advance(7000)
		if left := k.holds("a"); len(left) > 0 {
			t.Errorf("hold %v, concurrency %d: %q after the deadline", test.hold, test.concurrency, left)
		}
	}
}
