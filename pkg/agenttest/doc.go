// Package agenttest runs an agent in a test, without Beam and without a runner.
//
//	func TestRefund(t *testing.T) {
//		r := agenttest.New(t, agenttest.AgentParams{Name: "refunds", Agent: &Refunds{LimitCents: 1000}})
//		k := r.Key("customer-1")
//
//		asked := k.Event(order{ID: "o1", Cents: 5000}).Intent("refund")
//		refund := k.Approve(asked, "alice").Intent("refund")
//		out := k.Answer(refund, pb.ToolResult_OK, receipt{ID: "r1"})
//		...
//	}
//
// # Behaviour
//
// [New] makes a [Runtime], which runs the agent by the rules of transforms.RunAgent, with state
// in memory. [Runtime.Key] names a key. [Key.Event], [Key.Answer], [Key.Approve] and [Key.Deny]
// send something to the key, and return what goes out because of it as a [Result]. [Runtime.Wait]
// lets event time pass, so that deadlines, expiries and TTLs fire. A test never waits in real
// time.
//
// [Key.Suspended], [Key.Open], [Key.Snapshot], [Key.Deferred], [Memory], [Key.MemoryBlob] and
// [Key.Export] show the state of a key. [Runtime.Deploy] replaces the agent with another build of
// it.
//
// A failure of the agent is a dead letter in Result.Errors, as in a pipeline. Methods that look
// for one thing, such as [Result.Intent], fail the test if it is missing, and print everything
// that went out.
//
// Between two steps, the state of a key is encoded, and the agent is decoded anew from its JSON
// and set up. So each step runs as on a worker that has just started. An agent that keeps
// something in a field loses it in a test, as it would when a worker is replaced.
//
// [Everywhere] runs a script, and then runs its steps again many times: with bundle ends at every
// place, with a crash and a retry at every place, and with all keys at once. It fails the test if
// the outputs, intents, traces, dead letters, snapshots or stored bytes of a key differ. Run it
// with the race detector.
//
// # Limits
//
// A [Runtime] belongs to one goroutine.
//
// Everywhere runs each step about 100 times, or about 4 n times in a script of n steps if that is
// more. A script of 30 steps takes less than a second, and one of 100 steps some seconds. If the
// agent calls something
// slow, or if its Setup is slow, replace that by a fake. A fake must always give the same answer
// to the same call.
//
// Everywhere compares runs of one process within a short time. It does not find an agent that
// depends on the date, the machine or the environment. It does not find a random number either,
// if the number leaves no trace in the results.
//
// # Differences from RunAgent
//
// RunAgent fires timers of equal time in any order, and runs several keys at once. A Runtime
// fires timers of equal time in the order of the first use of their keys, and runs one step after
// the other.
//
// RunAgent calls Setup once per worker process. A Runtime calls it before each step.
//
// Durations are not measured: with MeasureDurations they are 0.
//
// Settings that only RunAgent has, such as Concurrency, do not exist here. They would not change
// the results of a test.
package agenttest
