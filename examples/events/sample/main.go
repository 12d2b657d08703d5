// Sample writes sample.jsonl, the file that the example ships with: the recording of a coding
// agent in three sessions, with all 50 types of events and some broken lines. Run it in its
// folder. It writes the same file every time.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"

	"github.com/beamagents/beamagents-go/pkg/events"
)

func main() {
	b, err := sample()
	if err == nil {
		err = os.WriteFile("sample.jsonl", b, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sample:", err)
		os.Exit(1)
	}
}

const start = 1700000000000 // ms; 14 November 2023

// recording is a run that is being recorded.
type recording struct {
	session, run string
	clock        uint64 // ms
	sequence     uint64
	lines        []line
	err          error
}

type line struct {
	at   uint64
	text []byte
}

// add records events, each of them so many ms after the previous one.
func (r *recording) add(after uint64, all ...events.Event) {
	for _, e := range all {
		r.clock += after
		env, err := events.RunRecord{Sequence: r.sequence, TimestampMs: r.clock, Event: e}.ToEnvelope(r.run, r.session)
		r.sequence++
		text, jsonErr := env.AppendJSON(nil)
		if r.err = cmp.Or(r.err, err, jsonErr); r.err == nil {
			r.lines = append(r.lines, line{r.clock, text})
		}
	}
}

// tool records a call that takes so many ms.
func (r *recording) tool(id, name, args string, took uint64, output string, exit int32, kind events.ToolErrorKind) {
	r.add(40, events.ToolStart{ID: id, Name: name})
	r.add(5, events.ToolInputDelta{ID: &id, Delta: args}, events.ToolRequestBound{
		ToolID: id, ToolName: name, Snapshot: events.ToolRequestSnapshotV1{
			Schema: "a3s.code.tool-request-snapshot.v1", Origin: events.OriginAgent,
			ToolIDDigest: digest(id), ToolNameDigest: digest(name),
			ArgumentsBytes: uint64(len(args)), ArgumentsDigest: digest(args), SnapshotDigest: digest(id + name + args),
		},
	})
	r.add(5, events.ToolExecutionStart{ID: id, Name: name, Args: value(args)})
	r.add(took/2, events.ToolOutputDelta{ID: id, Name: name, Delta: output})
	r.add(took-took/2, events.ToolEnd{ID: id, Name: name, Args: value(args), Output: output, ExitCode: exit, ErrorKind: kind})
}

// turn records a turn of a model, with the events of within in it.
func (r *recording) turn(number, prompt, completion uint64, think string, within func()) {
	r.add(10, events.TurnStart{Turn: number},
		events.ModelPresentationBound{Snapshot: events.ModelPresentationSnapshotV1{
			Schema: "a3s.code.model-presentation-snapshot.v1", CallSequence: number,
			Profile:     events.ToolPresentationProfileV1{Schema: "a3s.code.tool-presentation-profile.v1", Mode: events.PresentationAdaptive},
			Application: events.ApplicationProfiled, SourceToolCount: 3, SourceToolDefinitionsDigest: digest("tools"),
			SourceEstimatedTokens: 700, PresentedToolCount: 3, PresentedToolDefinitionsDigest: digest("tools"),
			PresentedEstimatedTokens: 700, SnapshotDigest: digest("presentation"),
		}},
		events.ModelInputBound{Snapshot: events.ModelInputSnapshotV1{
			Schema: "a3s.code.model-input-snapshot.v1", CallSequence: number, Kind: events.ModelInputStreaming,
			MessageCount: 2 * number, ContentBlockCount: 2 * number, ToolCount: 3, SystemBytes: 900,
			MessagePayloadBytes: 4 * prompt, ToolDefinitionBytes: 2800, PayloadBytes: 4*prompt + 3700,
			EstimatedPromptTokens: prompt, MessagesDigest: digest("messages"), ToolDefinitionsDigest: digest("tools"),
			InputDigest: digest("input"), CapabilitySnapshotDigest: digest("capabilities"), SnapshotDigest: digest("input snapshot"),
		}})
	r.add(600, events.ReasoningDelta{Text: think}, events.TextDelta{Text: "One moment. "})
	within()
	cached := prompt / 2
	r.add(5, events.ModelUsageBound{Snapshot: events.ModelUsageSnapshotV1{
		Schema: "a3s.code.model-usage-snapshot.v1", CallSequence: number, InputSnapshotDigest: digest("input snapshot"),
		EstimatedPromptTokens: prompt, ReportedPromptTokens: prompt, ReportedCompletionTokens: completion,
		ReportedTotalTokens: prompt + completion, ReportedCacheReadTokens: &cached, SnapshotDigest: digest("usage"),
	}}, events.TurnEnd{Turn: number, Usage: events.TokenUsage{
		PromptTokens: prompt, CompletionTokens: completion, TotalTokens: prompt + completion, CacheReadTokens: &cached,
	}})
}

func digest(of string) string {
	sum := sha256.Sum256([]byte(of))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func value(text string) events.Value {
	v, err := events.ParseValue([]byte(text))
	if err != nil {
		panic(err) // the constants below are valid
	}
	return v
}

// login is a successful run: a plan, tools, a subagent, and a verified end.
func login() *recording {
	r := &recording{session: "fix-login", run: "run-1", clock: start}
	tasks := []events.Task{
		{ID: "s1", Content: "Find out why the login test fails", Status: events.TaskInProgress, Priority: events.PriorityHigh},
		{ID: "s2", Content: "Mend it", Status: events.TaskPending, Dependencies: []string{"s1"}},
	}
	goal := events.AgentGoal{Description: "The login test passes", SuccessCriteria: []string{"go test ./login"}, CreatedAt: start / 1000}
	r.add(3, events.AgentStart{Prompt: "The login test fails since yesterday. Mend it."},
		events.AgentModeChanged{Mode: "build", Agent: "coder", Description: "May change files"},
		events.ContextResolving{Providers: []string{"repository", "memory"}},
		events.MemoriesSearched{Query: new("login test"), Tags: []string{"tests"}, ResultCount: 1},
		events.MemoryRecalled{MemoryID: "m1", Content: "Tests of this repository need TZ=UTC", Relevance: 0.9},
		events.ContextResolved{TotalItems: 4, TotalTokens: 1200},
		events.RunCapabilityBound{CallSequence: 1, Snapshot: events.RunCapabilitySnapshotV1{
			Schema: "a3s.code.run-capability-snapshot.v1", ModelVisibleToolCount: 3, ModelVisibleToolsDigest: digest("tools"),
			Workspace:      events.WorkspaceCapabilities{Read: true, Write: true, Exec: true, Git: true},
			Policy:         events.PolicyCapabilities{ConfirmationManagerBound: true, MaxToolRounds: 50, MaxParallelTasks: 2, ToolTimeoutMs: new(uint64(60000))},
			Retrieval:      events.RetrievalCapabilities{Enabled: true, Phase: events.RetrievalReady, CoverageBps: 9950},
			SnapshotDigest: digest("capabilities"),
		}},
		events.CognitiveContextBound{Binding: events.CognitivePackageBindingV1{
			Schema: "a3s.code.cognitive-package-session-binding.v1", PackageID: "go-style", PackageVersion: "1.4.0", LifecycleGeneration: 3,
			GenerationDigest: digest("generation"), CapabilitySnapshotDigest: digest("capabilities"),
			Knowledge: events.KnowledgeLeaseBinding{
				Schema: "agentic.ontology.r0-knowledge-lease-binding.v1", SurfaceID: "style", FormatVersion: "1", ContentDigest: digest("content"),
				SearchSchema: "a3s.use.okf-knowledge-search-request.v1", ReadSchema: "a3s.use.okf-knowledge-read-request.v1",
				CitationSchema: "a3s.use.okf-knowledge-citation.v1", LifecycleGeneration: 3, GenerationDigest: digest("generation"),
			},
			Limits: events.KnowledgeLimits{MaxResults: 4, MaxDocumentBytes: 6144, MaxTotalBytes: 6144},
		}},
		events.PlanningStart{Prompt: "The login test fails since yesterday. Mend it."},
		events.PlanningEnd{Plan: events.ExecutionPlan{
			Goal: goal.Description, Steps: tasks, Complexity: events.ComplexitySimple, RequiredTools: []string{"read", "bash"}, EstimatedSteps: 2,
		}, EstimatedSteps: 2},
		events.GoalExtracted{Goal: goal},
		events.TaskUpdated{SessionID: r.session, Tasks: tasks},
		events.StepStart{StepID: "s1", Description: tasks[0].Content, StepNumber: 1, TotalSteps: 2})
	r.turn(1, 2100, 180, "First the test.", func() {
		r.tool("call-1", "read", `{"path":"login/login_test.go"}`, 24, "package login ...", 0, nil)
		r.tool("call-2", "bash", `{"command":"go test ./login"}`, 4300, "--- FAIL: TestLogin", 1, nil)
		r.tool("call-3", "read", `{"path":"login/clock.go"}`, 12, "no such file", 1, events.ToolErrorNotFound{Path: "login/clock.go"})
	})
	r.add(20, events.StepEnd{StepID: "s1", Status: events.TaskCompleted, StepNumber: 1, TotalSteps: 2},
		events.GoalProgress{Goal: goal.Description, Progress: 0.5, CompletedSteps: 1, TotalSteps: 2},
		events.StepStart{StepID: "s2", Description: tasks[1].Content, StepNumber: 2, TotalSteps: 2})
	r.turn(2, 3900, 420, "The session is compared in local time.", func() {
		r.add(15, events.SubagentStart{
			TaskID: "task-1", SessionID: "fix-login/scout", ParentSessionID: r.session, Agent: "scout",
			Description: "Find other uses of time.Local", StartedMs: r.clock,
		})
		r.add(900, events.SubagentProgress{TaskID: "task-1", SessionID: "fix-login/scout", Status: "searching", Metadata: value(`{"files":41}`)})
		r.add(800, events.SubagentEnd{
			TaskID: "task-1", SessionID: "fix-login/scout", Agent: "scout", Output: "2 uses, none in login", Success: true, FinishedMs: r.clock,
		})
		r.tool("call-4", "edit", `{"path":"login/login.go","line":41}`, 31, "1 line changed", 0, nil)
		r.tool("call-5", "bash", `{"command":"go test ./login"}`, 3900, "ok", 0, nil)
	})
	r.add(30, events.StepEnd{StepID: "s2", Status: events.TaskCompleted, StepNumber: 2, TotalSteps: 2},
		events.GoalAchieved{Goal: goal.Description, TotalSteps: 2, DurationMs: 12000},
		events.MemoryStored{MemoryID: "m2", MemoryType: "fact", Importance: 0.75, Tags: []string{"time"}},
		events.AgentEnd{
			Text:  "The test compared local time with UTC; it passes now.",
			Usage: events.TokenUsage{PromptTokens: 6000, CompletionTokens: 600, TotalTokens: 6600},
			VerificationSummary: events.VerificationSummary{
				Status: events.VerificationPassed, ReportCount: 1, RequiredCheckCount: 1,
			},
			Meta: &events.LlmResponseMeta{Provider: new("example"), RequestModel: new("coder-large"), DurationMs: new(uint64(5200))},
		})
	return r
}

// cleanup is a run with many failures: refusals, timeouts, a retried stream, and a failed
// command. It is interrupted before it ends.
func cleanup() *recording {
	r := &recording{session: "clean-up", run: "run-1", clock: start + 2500}
	r.add(4, events.AgentStart{Prompt: "Delete the old build folders and push."},
		events.PeerInvocation{FromSessionID: "fix-login", CorrelationID: new("c-17")},
		events.MemoryCleared{Tier: "working", Count: 12})
	r.add(500, events.TurnStart{Turn: 1}, events.TextDelta{Text: "I will dele"})
	r.add(2000, events.Error{Message: "the stream was cut off"})
	r.turn(1, 1500, 90, "Start again.", func() {
		r.add(30, events.ConfirmationRequired{ToolID: "call-1", ToolName: "bash", Args: value(`{"command":"rm -r build"}`), TimeoutMs: 30000})
		r.add(6100, events.ConfirmationReceived{ToolID: "call-1", Approved: true, Reason: new("build folders only")})
		r.tool("call-1", "bash", `{"command":"rm -r build"}`, 140, "", 0, nil)
		r.add(30, events.ToolStart{ID: "call-2", Name: "bash"},
			events.PermissionDenied{ToolID: "call-2", ToolName: "bash", Args: value(`{"command":"rm -r /"}`), Reason: "outside the workspace"})
	})
	r.turn(2, 2300, 70, "Push.", func() {
		r.tool("call-3", "git", `{"args":["push"]}`, 30000, "", 124, events.ToolErrorTimeout{Op: "push", DurationMs: 30000})
		r.add(25, events.ConfirmationRequired{ToolID: "call-4", ToolName: "git", Args: value(`{"args":["push","--force"]}`), TimeoutMs: 30000})
		r.add(30000, events.ConfirmationTimeout{ToolID: "call-4", ActionTaken: "rejected"})
		r.tool("call-5", "git", `{"args":["push"]}`, 800, "rejected", 1, events.ToolErrorRemoteGitConflict{Code: "non_fast_forward", Message: "fetch first"})
	})
	r.add(60, events.ExternalTaskPending{
		TaskID: "ext-1", SessionID: r.session, Lane: events.LaneExecute, CommandType: "push", Payload: value(`{"remote":"origin"}`), TimeoutMs: 5000,
	}, events.ExternalTaskCompleted{TaskID: "ext-1", SessionID: r.session},
		events.CommandRetry{CommandID: "cmd-1", CommandType: "push", Lane: "Execute", Attempt: 1, DelayMs: 500})
	r.add(500, events.CommandDeadLettered{CommandID: "cmd-1", CommandType: "push", Lane: "Execute", Error: "the remote does not answer", Attempts: 2},
		events.QueueAlert{Level: "warning", AlertType: "dead_letters", Message: "1 command has failed for good"},
		events.PersistenceFailed{SessionID: r.session, Operation: "save", Error: "disk full"},
		events.BudgetThresholdHit{Resource: "tokens", Kind: "soft", Consumed: 3960, Limit: 4000, Message: new("almost used up")},
		events.ContextCompacted{SessionID: r.session, BeforeMessages: 40, AfterMessages: 6, PercentBefore: 0.8},
		events.PassivationRequested{Reason: "idle", DeadlineMs: new(r.clock + 60000)},
		events.TurnStart{Turn: 3},
		events.ToolExecutionStart{ID: "call-6", Name: "bash", Args: value(`{"command":"df"}`)})
	r.add(700, events.ToolOutputDelta{ID: "call-6", Name: "bash", Delta: "Filesystem"}, events.Error{Message: "the worker was stopped"})
	return r
}

// review is a session of two short runs.
func review(run string, after uint64) *recording {
	r := &recording{session: "überprüfung", run: run, clock: start + after}
	r.add(2, events.AgentStart{Prompt: "Sieh dir " + run + " an.\nGenau."})
	r.turn(1, 800, 60, "Reading.", func() {
		r.tool("call-1", "read", `{"path":"README.md"}`, 9+after/1000, "# Read me", 0, nil)
	})
	r.add(10, events.AgentEnd{
		Text: "Nothing to say.", Usage: events.TokenUsage{PromptTokens: 800, CompletionTokens: 60, TotalTokens: 860},
		VerificationSummary: events.VerificationSummary{Status: events.VerificationSkipped},
	})
	return r
}

// poison are lines that break the protocol, or that lack what a pipeline needs.
var poison = []string{
	`{"version":1,"type":"tool_end","payload":{"id":"call-9"`,
	`no JSON at all`,
	`{"version":2,"type":"text_delta","payload":{"text":"from the future"}}`,
	`{"version":1,"type":"text_delta"}`,
	`{"version":1,"type":"text_delta","type":"error","payload":{"text":"which?"}}`,
	`{"version":"1","type":"text_delta","payload":{"text":"a number, please"}}`,
	`{"version":1,"type":"text_delta","payload":{"text":"\ud800"}}`,
	`{"version":1,"type":"text_delta","payload":{"text":"whose session?"}}`,
	`{"version":1,"type":"tool_end","payload":{"id":"call-1","name":"bash","output":"","exit_code":"one"},` +
		`"metadata":{"run_id":"run-1","session_id":"clean-up","sequence":900,"timestamp_ms":1700000090000}}`,
	`{"version":1,"type":"text_delta","payload":{"text":"when?"},` +
		`"metadata":{"run_id":"run-1","session_id":"clean-up","sequence":901,"timestamp_ms":"noon"}}`,
}

func sample() ([]byte, error) {
	var lines []line
	for _, r := range []*recording{login(), cleanup(), review("run-1", 4000), review("run-2", 9000)} {
		if r.err != nil {
			return nil, r.err
		}
		lines = append(lines, r.lines...)
	}
	// Order the lines as a bus would deliver them: by time, with all sessions mixed, some lines
	// twice, and an event of a future type.
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var out bytes.Buffer
	gap := len(lines)/(len(poison)-1) + 1
	for i, l := range lines {
		if i%gap == 0 {
			out.WriteString(poison[i/gap] + "\n")
		}
		out.Write(append(l.text, '\n'))
		if i%40 == 39 {
			out.Write(append(lines[i-7].text, '\n'))
		}
	}
	out.WriteString(`{"version":1,"type":"user_question","payload":{"question_id":"q1","question":"Continue?","options":["yes","no"]},` +
		`"metadata":{"run_id":"run-1","session_id":"clean-up","sequence":902,"timestamp_ms":1700000095000}}` + "\n")
	out.WriteString(poison[len(poison)-1] + "\n")
	return out.Bytes(), nil
}
