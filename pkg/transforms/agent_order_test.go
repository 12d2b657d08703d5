package transforms

import (
	"testing"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// inOneBundle runs calls as one bundle.
func (k *agentKit) inOneBundle(calls ...func() error) {
	k.t.Helper()
	if err := k.StartBundle(); err != nil {
		k.t.Fatal(err)
	}
	for _, call := range calls {
		if err := call(); err != nil {
			k.t.Fatal(err)
		}
	}
	if err := k.FinishBundle(); err != nil {
		k.t.Fatal(err)
	}
}

// A bundle may contain an element and a timer of a key, in either order. The first one counts.
func TestAgentElementAndTimerInOneBundle(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		start := func() (k *agentKit, element, timer func() error) {
			k = newAgentKit(t, AgentParams{Concurrency: concurrency})
			k.run(eventFor("a", 1000, script{Act: []string{"t"}, Then: "suspend", Timeout: 5000, Next: &script{Emit: []string{"end"}}}))
			k.advance(1000)
			answer := resultFor(k.intents.All()[0].Value, 5500, "fine")
			return k,
				func() error { return k.Run("a", k.element(answer)) },
				func() error { return k.Fire(6000, k.onTimer) }
		}

		k, element, timer := start()
		k.inOneBundle(element, timer)
		k.advance(100_000)
		k.expect("a output@5500 tool_result approved=false expired=0 payload=fine", "a output@5500 end", "a intent@1000 TOOL t")

		k, element, timer = start()
		k.inOneBundle(timer, element)
		k.advance(100_000)
		k.expect("a output@6000 denied", "a intent@1000 TOOL t", "a error@5500 orphaned_result/no_continuation")
	})
}

// The times of a key's elements may decrease, in one bundle and in several, and an element may be
// late for its own deadline. Each suspension has the deadline that follows from its element.
func TestAgentTimesGoBackwards(t *testing.T) {
	eachForm(t, func(t *testing.T, concurrency int) {
		suspend := script{Then: "suspend", Timeout: 3000}
		for _, apart := range []bool{false, true} {
			k := newAgentKit(t, AgentParams{Concurrency: concurrency})
			elements := []*pb.AgentEnvelope{
				eventFor("a", 50_000, script{Emit: []string{"first"}}), eventFor("a", 2000, suspend), eventFor("a", 1000, script{Emit: []string{"deferred"}}),
			}
			if apart {
				for _, env := range elements {
					k.run(env)
					k.advance(3000)
				}
			} else {
				k.run(elements...)
			}
			if due := k.control("a").GetContinuation().GetDeadlineMs(); due != 5000 {
				t.Errorf("apart %v: the deadline is %d", apart, due)
			}
			k.advance(60_000)
			k.expect("a output@50000 first", "a output@5000 denied", "a output@5000 deferred")

			// Its deadline has passed when it arrives, so the timer fires at once.
			k.run(eventFor("a", 10_000, suspend))
			k.advance(60_000)
			k.expect("a output@50000 first", "a output@5000 denied", "a output@5000 deferred", "a output@13000 denied")
		}
	})
}
