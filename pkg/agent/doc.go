// Package agent is what the author of an agent sees: the agent as a plain Go type, the
// activation that it is given, and the outcome that it returns.
//
//	type Refunds struct{ LimitCents int64 }
//
//	func (a *Refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
//		switch t := act.Trigger(); t.Kind {
//		case agent.Event:
//			var o order
//			if err := t.JSON(&o); err != nil {
//				return agent.Reject(err), nil // unusable input: a dead letter
//			}
//			if o.Cents <= a.LimitCents {
//				return agent.Suspend(nil, time.Hour), act.Act("refund", o)
//			}
//			return agent.Suspend(nil, 24*time.Hour), act.RequestApproval("refund", o)
//		case agent.Approval:
//			if t.Approved {
//				return agent.Suspend(nil, time.Hour), act.ActApproved()
//			}
//		}
//		return agent.Done(), act.EmitJSON(act.Trigger().Kind)
//	}
//
// transforms.RunAgent runs such a type on Beam. Package agenttest runs it in a test
// without Beam.
//
// # Behaviour
//
// An activation is one run of an agent for one trigger: an event, the result of a tool,
// the decision of a human, or the passing of time. The agent reads and writes the memory
// of its key ([Get], [Put], [Delete]), asks for side effects ([Activation.Act],
// [Activation.RequestApproval]), and returns [Done], [Suspend] or [Reject].
//
// Everything is staged. Intents, outputs and memory take effect together when Run returns
// an outcome and no error. When Run returns an error, panics, or exceeds its time limit,
// nothing of the activation takes effect, and its input becomes a dead letter.
//
// A suspended agent goes on in a new activation with the snapshot that it left, when an
// intent is answered. An intent waits until it is answered, or until its expiry was
// reported to the agent ([Expired]); [Done] stops waiting for all of them. While a key is
// suspended its new events wait.
//
// A human approves a tool call, not a plan: an approval is requested for a tool and its
// arguments, and [Activation.ActApproved] stages exactly these bytes. An agent that builds
// the arguments anew after the approval may run something that nobody has approved, since
// memory, a model or the agent's code may have changed in between.
//
// An agent that holds more than its fields need may have these methods:
//
//   - Setup(context.Context) error prepares it, once per worker process. See [Preparer].
//   - TimeoutPolicy([Timeout]) [Route] says what happens at the deadline of a suspension.
//     See [TimeoutRouter].
//   - EventID(event []byte) string names an event, so that a second delivery is dropped.
//     See [EventIdentifier].
//   - SnapshotVersion() uint32 and MigrateSnapshot(from uint32, snapshot []byte) ([]byte,
//     error) read snapshots of an older build. See [SnapshotVersioner], [SnapshotMigrator].
//   - TraceParent(event []byte) string links the activation to the caller's trace. See
//     [TraceLinker].
//
// # Limits
//
// One value serves all keys at once. It is read-only after Setup: what an agent remembers
// belongs in memory or in its snapshot. Test with the race detector.
//
// An agent must depend on nothing but its trigger, its memory, its snapshot and its
// fields. The bundle of a failed worker runs again, and what it emits must be the same.
// "Now" is [Activation.NowMS], never a clock.
//
// An [Activation] belongs to the goroutine of Run. When Run has returned, or its time is
// up, every method returns [ErrActivationEnded]. All data is copied on its way in and
// out: an agent may change what it was given.
//
// A run that ignores its cancelled context goes on in the background, and its result is
// discarded. A fatal error of the Go runtime in an agent (a concurrent map write, a stack
// overflow) and a panic on a goroutine that the agent started end the worker process.
//
// # Differences
//
// Other implementations hand the arguments of an intent over as text that the agent has
// made. Here they are canonical JSON of a Go value. Other implementations run an agent
// again on an event that arrives during a suspension, which loses the suspension.
package agent
