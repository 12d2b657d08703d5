// Package agent is the API for the author of an agent. An agent is a Go type with the method Run.
// Run gets an [Activation], in which it reads its trigger and its memory and stages side effects,
// and returns an [Outcome].
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
// transforms.RunAgent runs such a type on Beam. Package agenttest runs it in a test without Beam.
//
// # Behaviour
//
// An activation is one run of an agent for one trigger. A trigger is an event, the result of a
// tool, the decision of a human, or the passing of time. The agent reads and writes the memory of
// its key ([Get], [Put], [Delete]), asks for side effects ([Activation.Act],
// [Activation.RequestApproval]), and returns [Done], [Suspend] or [Reject].
//
// Everything that an activation does is staged. Intents, outputs and memory take effect together,
// when Run returns an outcome without an error. When Run returns an error, panics, or exceeds its
// time limit, no part of the activation takes effect, and its input becomes a dead letter.
//
// [Suspend] keeps a snapshot, which is any bytes that the agent needs later, and a deadline. When
// an intent of the suspended agent is answered, a new activation resumes the agent and gets the
// snapshot. When the deadline passes, the suspension ends with the output [DefaultTimeoutOutput],
// unless the method TimeoutPolicy decides otherwise. An intent is open until it is answered, or
// until the agent has been told that it has expired ([Expired]). [Done] closes all open intents.
// New events of a suspended key are deferred until the suspension ends, or refused if
// AgentParams.WhileSuspended is Reject. AgentParams is the configuration of a runtime, such as
// transforms.AgentParams.
//
// A human approves a tool call, not a plan. An approval is requested for a tool and its
// arguments, and [Activation.ActApproved] stages exactly these bytes. An agent that builds the
// arguments anew after the approval may run something that nobody has approved, because memory, a
// model or the agent's code may have changed in between.
//
// Make model calls with [Activation.HTTPClient] or [Activation.CallModel]. Their responses are
// stored with the state of the key. A resumed activation that makes the same call again gets the
// stored response.
//
// An agent may also have these methods:
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
//   - ModelTransport() http.RoundTripper is the transport of the agent's model calls. See
//     [ModelTransporter].
//   - RedactResponse, and SealResponse with OpenResponse, change or encrypt model responses
//     before they are stored. See [ResponseRedactor], [ResponseSealer].
//
// # Limits
//
// One value serves all keys at once, so it is read-only after Setup. Keep what an agent remembers
// in its memory or its snapshot. Test agents with the race detector.
//
// An agent must depend only on its trigger, its memory, its snapshot and its fields. The bundle
// of a failed worker runs again, and must emit the same. The current time is [Activation.NowMS],
// never a clock.
//
// A memory holds 1 MiB of values; beyond that, the least recently used entries are evicted. The
// fields of AgentParams bound the open intents, the bytes of outputs and the bytes of a snapshot.
// An activation beyond one of these bounds fails.
//
// An [Activation] belongs to the goroutine of Run. When Run has returned, or its time is up,
// every method returns [ErrActivationEnded]. Data is copied on its way in and out, so an agent
// may change what it gets.
//
// A Run that ignores its cancelled context continues in the background, and its result is
// discarded. Two things end the worker process: a fatal error of the Go runtime in an agent, such
// as a concurrent map write or a stack overflow, and a panic on a goroutine that the agent
// started.
//
// # Differences from other languages
//
// In other implementations the arguments of an intent are text that the agent has made; here they
// are the canonical JSON of a Go value. Other implementations run the agent on an event that
// arrives during a suspension, and so lose the suspension; here the event is deferred or refused.
package agent
