package transforms

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"github.com/beamagents/beamagents-go/pkg/activation"
	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// MetricsNamespace is the namespace of this package's counters, with two exceptions: the counters
// of ExportTraces are in [ExportNamespace], and soft_cap_warnings, which counts memories that are
// nearly full, is in beam_agents.memory.
const MetricsNamespace = "beam_agents.runtime"

// ExportNamespace is the namespace of the counters of [ExportTraces].
const ExportNamespace = "beam_agents.otlp"

// memoryNamespace is the namespace of soft_cap_warnings.
const memoryNamespace = "beam_agents.memory"

var (
	envelopesParsed = beam.NewCounter(MetricsNamespace, "envelopes_parsed")

	routedEvents         = beam.NewCounter(MetricsNamespace, "envelopes_routed_event")
	routedToolResults    = beam.NewCounter(MetricsNamespace, "envelopes_routed_tool_result")
	routedApprovals      = beam.NewCounter(MetricsNamespace, "envelopes_routed_approval")
	routedExportRequests = beam.NewCounter(MetricsNamespace, "envelopes_routed_export_request")

	routedTools           = beam.NewCounter(MetricsNamespace, "intents_routed_tool")
	routedApprovalIntents = beam.NewCounter(MetricsNamespace, "intents_routed_approval")

	intentsSigned      = beam.NewCounter(MetricsNamespace, "intents_signed")
	intentsVerified    = beam.NewCounter(MetricsNamespace, "intents_verified")
	intentsNotVerified = beam.NewCounter(MetricsNamespace, "intents_not_verified")
	unsignedAccepted   = beam.NewCounter(MetricsNamespace, "unsigned_intents_accepted")
	intentsEncoded     = beam.NewCounter(MetricsNamespace, "intents_encoded")
	intentsDecoded     = beam.NewCounter(MetricsNamespace, "intents_decoded")
	eventsDecoded      = beam.NewCounter(MetricsNamespace, "events_decoded")
	eventsEnveloped    = beam.NewCounter(MetricsNamespace, "events_enveloped")
	eventsTraced       = beam.NewCounter(MetricsNamespace, "events_traced")

	agentTimersWithoutState = beam.NewCounter(MetricsNamespace, "timers_without_state")
	activationsAbandoned    = beam.NewCounter(MetricsNamespace, "activations_abandoned")
	activationMS            = beam.NewDistribution(MetricsNamespace, "activation_ms")
	activationsInFlight     = beam.NewDistribution(MetricsNamespace, "activations_in_flight")
	memoryEvictions         = beam.NewCounter(MetricsNamespace, "memory_evictions")
	memoryBytes             = beam.NewDistribution(MetricsNamespace, "memory_bytes")
	softCapWarnings         = beam.NewCounter(memoryNamespace, "soft_cap_warnings")

	spansExported      = beam.NewCounter(ExportNamespace, "spans_exported")
	spansDropped       = beam.NewCounter(ExportNamespace, "spans_dropped")
	spansUnsampled     = beam.NewCounter(ExportNamespace, "spans_unsampled")
	eventsWithoutTrace = beam.NewCounter(ExportNamespace, "events_without_trace")
	eventsInvalid      = beam.NewCounter(ExportNamespace, "events_invalid")
	batchesSent        = beam.NewCounter(ExportNamespace, "batches_sent")
	exportFailures     = beam.NewCounter(ExportNamespace, "export_failures")

	agentCounters = func() map[string]beam.Counter {
		counters := map[string]beam.Counter{}
		for _, name := range activation.Counters() {
			counters[name] = beam.NewCounter(MetricsNamespace, name)
		}
		return counters
	}()

	agentDistributions = func() map[string]beam.Distribution {
		distributions := map[string]beam.Distribution{}
		for _, name := range activation.Distributions() {
			distributions[name] = beam.NewDistribution(MetricsNamespace, name)
		}
		return distributions
	}()

	errorsByReason = func() map[deadletter.Reason]beam.Counter {
		counters := map[deadletter.Reason]beam.Counter{}
		for _, r := range deadletter.Reasons() {
			counters[r] = beam.NewCounter(MetricsNamespace, "errors_"+string(r))
		}
		return counters
	}()
)

// emitLetter emits the record of a letter and counts it under the letter's reason. A dead letter
// that came back and failed again keeps its first reason in the record, but is counted under the
// new one. An error is a bug of the caller: a reason or a code that package deadletter does not
// list.
func emitLetter(ctx context.Context, l deadletter.Letter, emit func(*pb.ActivationErrorRecord)) error {
	rec, err := l.Record()
	if err != nil {
		return err
	}
	errorsByReason[l.Reason].Inc(ctx, 1)
	emit(rec)
	return nil
}
