package collector_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	nethttp "net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	"google.golang.org/protobuf/encoding/protodelim"

	"github.com/beamagents/beamagents-go/internal/prismtest"
	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/transforms"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// These variables make a process of the test binary a job that exports traces, or a collector that
// dies.
const (
	jobVariable       = "COLLECTOR_TEST_JOB"   // the folder of the outputs
	batchVariable     = "COLLECTOR_TEST_BATCH" // spans in a batch
	modelVariable     = "COLLECTOR_TEST_MODEL" // the URL of the model
	collectorVariable = "COLLECTOR_TEST_DIES"  // where it listens
)

// An exporter lives as long as its process, and its environment is that of the process.
func TestMain(m *testing.M) {
	var err error
	if folder := os.Getenv(jobVariable); folder != "" {
		err = runJob(folder)
	} else if address := os.Getenv(collectorVariable); address != "" {
		err = collectOneBatch(address)
	} else {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// refunds is the agent of examples/quickstart, with two additions: it is called from another trace,
// and it asks a model about large orders.
type refunds struct {
	LimitCents int64
	ModelURL   string
}

func init() { transforms.RegisterAgent[*refunds]() }

const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func (*refunds) TraceParent([]byte) string { return caller }

func (r *refunds) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	switch t := act.Trigger(); t.Kind {
	case agent.Event:
		var order struct {
			Cents int64 `json:"cents"`
		}
		if err := t.JSON(&order); err != nil {
			return agent.Reject(err), nil
		}
		if order.Cents <= r.LimitCents {
			return agent.Suspend(nil, time.Hour), act.Act("refund", order)
		}
		if err := r.ask(ctx, act); err != nil {
			return agent.Outcome{}, err
		}
		return agent.Suspend(nil, 24*time.Hour), act.RequestApproval("refund", order)
	case agent.Approval:
		if t.Approved {
			return agent.Suspend(nil, time.Hour), act.ActApproved()
		}
	}
	return agent.Done(), act.EmitJSON(act.Trigger().Kind)
}

// ask calls the model as the SDK of a provider would.
func (r *refunds) ask(ctx context.Context, act *agent.Activation) error {
	const body = `{"model":"judge-1","messages":[{"role":"user","content":"` + secret + `"}]}`
	request, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, r.ModelURL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := act.HTTPClient().Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return errors.Join(err, response.Body.Close())
}

// secret is part of the question to the model and of its answer. No span may contain it.
const secret = "may I refund this"

// serveModel serves a model that always gives the same answer.
func serveModel(t *testing.T) (url string) {
	t.Helper()
	const answer = `{"id":"answer-1","object":"chat.completion","model":"judge-1-2026","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"` + secret + `"}}],` +
		`"usage":{"prompt_tokens":1200,"completion_tokens":80,"total_tokens":1280,"prompt_tokens_details":{"cached_tokens":1000}}}`
	server := httptest.NewServer(nethttp.HandlerFunc(func(w nethttp.ResponseWriter, _ *nethttp.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer) // the client has gone
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// runJob runs the samples of two examples, exports the traces, writes all outputs to a folder, and
// prints the counters of the export.
func runJob(folder string) error {
	log.LogLevel = "warn"
	beam.Init()
	batch, err := strconv.Atoi(os.Getenv(batchVariable))
	if err != nil {
		return err
	}
	sessions, err := os.ReadFile("../../examples/events/sample/sample.jsonl")
	if err != nil {
		return err
	}
	p, s := beam.NewPipelineWithRoot()
	read := transforms.ReadEnvelopes(s, transforms.ReadParams{}, "../../examples/quickstart/sample/sample.jsonl")
	agents := transforms.RunAgent(s, transforms.AgentParams{
		Name: "refunds", Agent: &refunds{LimitCents: 5000, ModelURL: os.Getenv(modelVariable)}, MeasureDurations: true,
	}, transforms.KeyByEntity(s, read.Envelopes))
	decoded := transforms.DecodeEvents(s, beam.CreateList(s, bytes.Split(bytes.TrimSpace(sessions), []byte("\n"))))
	runs := transforms.EventsToTraces(s, decoded.Events)
	traces := beam.Flatten(s, agents.Traces, runs.Traces)
	transforms.ExportTraces(s, transforms.ExportTracesParams{BatchSize: batch}, traces)
	transforms.WriteFolder(s, folder, map[string]beam.PCollection{
		"outputs.jsonl":      agents.Outputs,
		"intents.jsonl":      agents.Intents,
		"snapshots.jsonl":    agents.Snapshots,
		"traces.binpb":       traces,
		"dead_letters.jsonl": beam.Flatten(s, read.Errors, agents.Errors, decoded.Errors, runs.Errors),
	})
	result, err := prismtest.Execute(p)
	if err != nil {
		return err
	}
	counts := map[string]int64{}
	for _, c := range result.Metrics().AllMetrics().Counters() {
		if c.Key.Namespace == transforms.ExportNamespace {
			counts[c.Key.Name] += c.Result()
		}
	}
	return json.NewEncoder(os.Stdout).Encode(counts)
}

// result is the output of a job.
type result struct {
	counts map[string]int64
	files  map[string]string // except for the traces, whose durations differ
	events []*pb.TraceEvent
}

// process is the test binary with additional environment variables.
func process(variables ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), variables...)
	cmd.Stderr = os.Stderr
	return cmd
}

// job runs the job, which must succeed.
func job(t *testing.T, model string, batch int, variables ...string) result {
	t.Helper()
	folder := t.TempDir()
	cmd := process(append(variables, jobVariable+"="+folder, modelVariable+"="+model, batchVariable+"="+strconv.Itoa(batch))...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the job failed: %v", err)
	}
	r := result{counts: map[string]int64{}, files: map[string]string{}}
	if err := json.Unmarshal(out, &r.counts); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"outputs.jsonl", "intents.jsonl", "snapshots.jsonl", "dead_letters.jsonl"} {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		r.files[name] = string(b)
	}
	b, err := os.ReadFile(filepath.Join(folder, "traces.binpb"))
	if err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewReader(bytes.NewReader(b)); ; {
		e := new(pb.TraceEvent)
		switch err := protodelim.UnmarshalFrom(in, e); {
		case errors.Is(err, io.EOF):
			return r
		case err != nil:
			t.Fatal(err)
		}
		r.events = append(r.events, e)
	}
}

// exportTo returns the variables of a job that exports to an address.
func exportTo(protocol, address string) []string {
	name := map[string]string{grpc: "grpc", http: "http/protobuf"}[protocol]
	return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + address, "OTEL_EXPORTER_OTLP_PROTOCOL=" + name, "OTEL_SERVICE_NAME=refunds-job"}
}
