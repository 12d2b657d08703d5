package beamagents_test

import "testing"

// The snippets of the pages on events and on dead letters do what the pages say.
func TestEventsAndDeadLettersPageSnippets(t *testing.T) {
	snippet := map[string]string{}
	for _, page := range []string{"docs/events.md", "docs/dead-letters.md"} {
		all := goSnippets(t, page)
		if len(all) != 1 {
			t.Fatalf("%s has %d Go snippets, not 1: run the new ones here, too", page, len(all))
		}
		snippet[page] = all[0]
	}
	run := readerModule(t, map[string]string{
		"traces.go": `package reader

import (
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"

	"github.com/beamagents/beamagents-go/pkg/transforms"
)

` + snippet["docs/events.md"],
		"why.go": `package reader

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

` + snippet["docs/dead-letters.md"],
		"reader_test.go": readerTest,
	})
	run("vet", "-mod=readonly", ".")
	run("test", "-mod=readonly", ".")
}

// readerTest runs the snippets: two runs of a session that are an hour apart, two events
// that are refused, and the dead letters of one of these.
const readerTest = `package reader

import (
	"fmt"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph/window"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/passert"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/testing/ptest"
	"google.golang.org/protobuf/proto"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func TestMain(m *testing.M) { ptest.MainWithDefault(m, "prism") }

func init() {
	register.Function1x1(spanText)
	register.Function1x1(letterText)
}

func spanText(e *pb.TraceEvent) string {
	return fmt.Sprintf("%s %d..%d", e.GetEventType(), e.GetStartMs(), e.GetEndMs())
}

func letterText(rec *pb.ActivationErrorRecord) string {
	letter, err := deadletter.Read(rec)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%s/%s: %s", letter.Reason, letter.Code, letter.Error)
}

func event(kind, payload string, sequence int, ms int64) []byte {
	return fmt.Appendf(nil, "{\"version\":1,\"type\":%q,\"payload\":%s,\"metadata\":"+
		"{\"session_id\":\"s\",\"run_id\":\"r%d\",\"sequence\":%d,\"timestamp_ms\":%d}}", kind, payload, ms/3_600_000, sequence, ms)
}

func TestTracesOf(t *testing.T) {
	p, s := beam.NewPipelineWithRoot()
	traces, letters := tracesOf(s, beam.CreateList(s, [][]byte{
		event("agent_start", "{\"prompt\":\"p\"}", 0, 1000),
		event("turn_start", "{\"turn\":1}", 1, 2000),
		event("agent_start", "{\"prompt\":\"p\"}", 0, 3_601_000),
		event("turn_start", "{\"turn\":\"one\"}", 1, 3_602_000),
		[]byte("broken"),
	}))
	global := func(col beam.PCollection) beam.PCollection { return beam.WindowInto(s, window.NewGlobalWindows(), col) }
	passert.Equals(s, global(beam.ParDo(s, spanText, traces)),
		"ACTIVATION_START 1000..1000", "ACTIVATION_END 1000..2000", "LLM_CALL 2000..2000",
		"ACTIVATION_START 3601000..3601000", "ACTIVATION_END 3601000..3601000")
	var all []beam.PCollection
	for _, col := range letters {
		all = append(all, global(beam.ParDo(s, letterText, col)))
	}
	passert.Equals(s, beam.Flatten(s, all...),
		"malformed_event/unparsable: expected a value at byte 0",
		"malformed_event/wrong_type: invalid type: string \"one\", expected u64")
	ptest.RunAndValidate(t, p)
}

func TestWhy(t *testing.T) {
	message := func(rec *pb.ActivationErrorRecord, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		env, err := deadletter.Wrap(rec)
		if err != nil {
			t.Fatal(err)
		}
		b, err := proto.Marshal(env)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := message(deadletter.Letter{
		Reason: deadletter.FunctionError, Code: deadletter.Failed, Error: "no price",
		InputKind: deadletter.EnvelopeInput, Input: []byte("the input"),
	}.Record())
	for _, tc := range []struct {
		message     []byte
		text, again string
	}{
		{first, "function_error/error: no price", "the input"},
		{
			message(deadletter.Letter{
				Reason: deadletter.MalformedEnvelope, Code: deadletter.BadEventTime, InputKind: deadletter.BytesInput, Input: first,
			}.Record()),
			"function_error/error: no price, and again 1 times, at last malformed_envelope/bad_event_time", "the input",
		},
		{message(&pb.ActivationErrorRecord{Reason: "r", Detail: "boom"}, nil), "r: boom", ""},
		{message(deadletter.Letter{Reason: deadletter.HITLTimeout, Code: deadletter.Dropped}.Record()), "hitl_timeout/dropped: ", ""},
	} {
		if text, again, err := why(tc.message); err != nil || text != tc.text || string(again) != tc.again {
			t.Errorf("%q, %q, %v; want %q, %q", text, again, err, tc.text, tc.again)
		}
	}
	if text, _, err := why([]byte("broken")); err == nil {
		t.Errorf("a message that cannot be read: %q", text)
	}
}
`
