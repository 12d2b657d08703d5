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
// [New] makes a [Runtime]: the same rules as those of transforms.RunAgent, over state in
// memory. [Runtime.Key] names a key. [Key.Event], [Key.Answer], [Key.Approve] and
// [Key.Deny] send something to it, and return what goes out because of it as a [Result].
// [Runtime.Wait] lets event time pass: deadlines, expiries and TTLs fire. No test waits in
// real time.
//
// [Key.Suspended], [Key.Open], [Key.Snapshot], [Key.Deferred], [Memory], [Key.MemoryBlob]
// and [Key.Export] look at the state of a key. [Runtime.Deploy] goes on with another build
// of the agent.
//
// What goes wrong in the agent is a dead letter in Result.Errors, as in a pipeline. The
// methods that look for one thing, such as [Result.Intent], fail the test if it is not
// there, and print all that went out.
//
// Between two steps the state of a key is bytes, and the agent is made anew from the JSON
// form of its exported fields, then set up: each step runs on a worker that has just
// started. So an agent that keeps something in a field loses it in a test, as it would
// when a worker is replaced.
//
// [Everywhere] runs a script, and the steps that it has taken again and again: with the
// bundles cut at every place, with a crash and a retry at every place, and with all keys
// at once. It fails if anything differs: outputs, intents, traces, dead letters,
// snapshots, or the stored bytes of a key. Run it with the race detector.
//
// # Limits
//
// A [Runtime] belongs to one goroutine.
//
// Everywhere runs each step about 100 times, and each step of a script of n steps about 4 n
// times: 30 steps take less than a second, 100 steps some seconds. So an agent that calls
// something slow, or whose Setup is slow, needs a fake in its place. A fake must give the
// same answer to the same call however often it is asked.
//
// Everywhere compares runs of one process within a short time. It does not find an agent
// that depends on the date, on the machine or on its environment, nor one that uses a
// random number without a trace of it in what it leaves.
//
// # Differences
//
// RunAgent fires timers of one time in any order, and runs several keys at once. A Runtime
// fires timers of one time in the order of the first use of their keys, and runs one step
// after the other.
//
// RunAgent calls Setup once per worker process; a Runtime calls it before each step.
//
// Durations are not measured: with MeasureDurations they are 0.
//
// A value of a setting that RunAgent alone has, such as Concurrency, changes nothing that a
// test could see.
package agenttest
