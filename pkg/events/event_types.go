package events

// AgentStart says that an agent run has begun.
type AgentStart struct {
	Prompt string `wire:"prompt"`
}

// AgentModeChanged says that the agent has changed its mode.
type AgentModeChanged struct {
	Mode        string `wire:"mode"`
	Agent       string `wire:"agent"`
	Description string `wire:"description"`
}

// TurnStart says that a turn has begun. The same number comes again when an
// interrupted stream is retried.
type TurnStart struct {
	Turn uint64 `wire:"turn"`
}

// TextDelta is a piece of the model's answer.
type TextDelta struct {
	Text string `wire:"text"`
}

// ReasoningDelta is a piece of the model's reasoning.
type ReasoningDelta struct {
	Text string `wire:"text"`
}

// ToolStart says that the model has begun to ask for a tool.
type ToolStart struct {
	ID   string `wire:"id"`
	Name string `wire:"name"`
}

// ToolInputDelta is a piece of a tool's input.
type ToolInputDelta struct {
	ID    *string `wire:"id,omit"`
	Delta string  `wire:"delta"`
}

// ToolRequestBound says that a tool request has been fixed, as digests.
type ToolRequestBound struct {
	ToolID   string                `wire:"tool_id"`
	ToolName string                `wire:"tool_name"`
	Snapshot ToolRequestSnapshotV1 `wire:"snapshot,strict"`
}

// ToolExecutionStart says that a tool has begun to run.
type ToolExecutionStart struct {
	ID   string `wire:"id"`
	Name string `wire:"name"`
	Args Value  `wire:"args"`
}

// ToolEnd says that a tool has ended.
type ToolEnd struct {
	ID        string        `wire:"id"`
	Name      string        `wire:"name"`
	Args      Value         `wire:"args,omit"`
	Output    string        `wire:"output"`
	ExitCode  int32         `wire:"exit_code"`
	Metadata  Value         `wire:"metadata,omit"`
	ErrorKind ToolErrorKind `wire:"error_kind,omit"`
}

// ToolOutputDelta is a piece of a tool's output.
type ToolOutputDelta struct {
	ID    string `wire:"id"`
	Name  string `wire:"name"`
	Delta string `wire:"delta"`
}

// TurnEnd says that a turn has ended.
type TurnEnd struct {
	Turn  uint64     `wire:"turn"`
	Usage TokenUsage `wire:"usage"`
}

// AgentEnd says that an agent run has ended.
type AgentEnd struct {
	Text                string              `wire:"text"`
	Usage               TokenUsage          `wire:"usage"`
	VerificationSummary VerificationSummary `wire:"verification_summary"`
	Meta                *LlmResponseMeta    `wire:"meta,omit"`
}

// Error says that something went wrong. It is an event, not a Go error.
type Error struct {
	Message string `wire:"message"`
}

// ConfirmationRequired says that a tool waits for a confirmation.
type ConfirmationRequired struct {
	ToolID    string `wire:"tool_id"`
	ToolName  string `wire:"tool_name"`
	Args      Value  `wire:"args"`
	TimeoutMs uint64 `wire:"timeout_ms"`
}

// ConfirmationReceived says that a confirmation has been given or refused.
type ConfirmationReceived struct {
	ToolID   string  `wire:"tool_id"`
	Approved bool    `wire:"approved"`
	Reason   *string `wire:"reason,null"`
}

// ConfirmationTimeout says that a confirmation has not come in time. ActionTaken is
// "rejected" or "auto_approved".
type ConfirmationTimeout struct {
	ToolID      string `wire:"tool_id"`
	ActionTaken string `wire:"action_taken"`
}

// ExternalTaskPending says that a task waits for somebody outside.
type ExternalTaskPending struct {
	TaskID      string      `wire:"task_id"`
	SessionID   string      `wire:"session_id"`
	Lane        SessionLane `wire:"lane"`
	CommandType string      `wire:"command_type"`
	Payload     Value       `wire:"payload"`
	TimeoutMs   uint64      `wire:"timeout_ms"`
}

// ExternalTaskCompleted says that a task outside is done.
type ExternalTaskCompleted struct {
	TaskID    string `wire:"task_id"`
	SessionID string `wire:"session_id"`
	Success   bool   `wire:"success"`
}

// PermissionDenied says that a policy has refused a tool.
type PermissionDenied struct {
	ToolID   string `wire:"tool_id"`
	ToolName string `wire:"tool_name"`
	Args     Value  `wire:"args"`
	Reason   string `wire:"reason"`
}

// ContextResolving says that context is being gathered from these providers.
type ContextResolving struct {
	Providers []string `wire:"providers"`
}

// ContextResolved says that context has been gathered.
type ContextResolved struct {
	TotalItems  uint64 `wire:"total_items"`
	TotalTokens uint64 `wire:"total_tokens"`
}

// RunCapabilityBound says that what a run may do has been fixed, as digests.
type RunCapabilityBound struct {
	CallSequence uint64                  `wire:"call_sequence"`
	Snapshot     RunCapabilitySnapshotV1 `wire:"snapshot,strict"`
}

// ModelPresentationBound says that which tools the model sees has been fixed, as
// digests.
type ModelPresentationBound struct {
	Snapshot ModelPresentationSnapshotV1 `wire:"snapshot,strict"`
}

// ModelInputBound says that a model's input has been fixed, as digests.
type ModelInputBound struct {
	Snapshot ModelInputSnapshotV1 `wire:"snapshot,strict"`
}

// ModelUsageBound is what a model call used.
type ModelUsageBound struct {
	Snapshot ModelUsageSnapshotV1 `wire:"snapshot,strict"`
}

// CognitiveContextBound says that a knowledge package has been bound to the session.
type CognitiveContextBound struct {
	Binding CognitivePackageBindingV1 `wire:"binding,strict"`
}

// CommandDeadLettered says that a command has failed for good. Lane is any text
// here.
type CommandDeadLettered struct {
	CommandID   string `wire:"command_id"`
	CommandType string `wire:"command_type"`
	Lane        string `wire:"lane"`
	Error       string `wire:"error"`
	Attempts    uint32 `wire:"attempts"`
}

// CommandRetry says that a command will be tried again. Lane is any text here.
type CommandRetry struct {
	CommandID   string `wire:"command_id"`
	CommandType string `wire:"command_type"`
	Lane        string `wire:"lane"`
	Attempt     uint32 `wire:"attempt"`
	DelayMs     uint64 `wire:"delay_ms"`
}

// QueueAlert says that a queue needs attention.
type QueueAlert struct {
	Level     string `wire:"level"`
	AlertType string `wire:"alert_type"`
	Message   string `wire:"message"`
}

// TaskUpdated is the list of tasks of a session as it is now.
type TaskUpdated struct {
	SessionID string `wire:"session_id"`
	Tasks     []Task `wire:"tasks"`
}

// MemoryStored says that a memory has been stored.
type MemoryStored struct {
	MemoryID   string   `wire:"memory_id"`
	MemoryType string   `wire:"memory_type"`
	Importance float32  `wire:"importance"`
	Tags       []string `wire:"tags"`
}

// MemoryRecalled says that a memory has been recalled.
type MemoryRecalled struct {
	MemoryID  string  `wire:"memory_id"`
	Content   string  `wire:"content"`
	Relevance float32 `wire:"relevance"`
}

// MemoriesSearched says that memories have been searched.
type MemoriesSearched struct {
	Query       *string  `wire:"query,null"`
	Tags        []string `wire:"tags"`
	ResultCount uint64   `wire:"result_count"`
}

// MemoryCleared says that a tier of memory has been cleared. Tier is "long_term",
// "short_term" or "working".
type MemoryCleared struct {
	Tier  string `wire:"tier"`
	Count uint64 `wire:"count"`
}

// SubagentStart says that a subagent has begun. StartedMs is a Unix time in ms, 0
// when not known.
type SubagentStart struct {
	TaskID          string `wire:"task_id"`
	SessionID       string `wire:"session_id"`
	ParentSessionID string `wire:"parent_session_id"`
	Agent           string `wire:"agent"`
	Description     string `wire:"description"`
	StartedMs       uint64 `wire:"started_ms,default"`
}

// SubagentProgress says that a subagent reports. Metadata may be null but not
// missing.
type SubagentProgress struct {
	TaskID    string `wire:"task_id"`
	SessionID string `wire:"session_id"`
	Status    string `wire:"status"`
	Metadata  Value  `wire:"metadata"`
}

// SubagentEnd says that a subagent has ended. FinishedMs is a Unix time in ms, 0
// when not known.
type SubagentEnd struct {
	TaskID     string `wire:"task_id"`
	SessionID  string `wire:"session_id"`
	Agent      string `wire:"agent"`
	Output     string `wire:"output"`
	Success    bool   `wire:"success"`
	FinishedMs uint64 `wire:"finished_ms,default"`
}

// PlanningStart says that planning has begun.
type PlanningStart struct {
	Prompt string `wire:"prompt"`
}

// PlanningEnd says that planning has ended.
type PlanningEnd struct {
	Plan           ExecutionPlan `wire:"plan"`
	EstimatedSteps uint64        `wire:"estimated_steps"`
}

// StepStart says that a step of a plan has begun.
type StepStart struct {
	StepID      string `wire:"step_id"`
	Description string `wire:"description"`
	StepNumber  uint64 `wire:"step_number"`
	TotalSteps  uint64 `wire:"total_steps"`
}

// StepEnd says that a step of a plan has ended.
type StepEnd struct {
	StepID     string     `wire:"step_id"`
	Status     TaskStatus `wire:"status"`
	StepNumber uint64     `wire:"step_number"`
	TotalSteps uint64     `wire:"total_steps"`
}

// GoalExtracted says that a goal has been found.
type GoalExtracted struct {
	Goal AgentGoal `wire:"goal"`
}

// GoalProgress says that a goal has come nearer. Progress is from 0 to 1.
type GoalProgress struct {
	Goal           string  `wire:"goal"`
	Progress       float32 `wire:"progress"`
	CompletedSteps uint64  `wire:"completed_steps"`
	TotalSteps     uint64  `wire:"total_steps"`
}

// GoalAchieved says that a goal has been reached.
type GoalAchieved struct {
	Goal       string `wire:"goal"`
	TotalSteps uint64 `wire:"total_steps"`
	DurationMs int64  `wire:"duration_ms"`
}

// ContextCompacted says that the context has been made smaller. PercentBefore is how
// full it was.
type ContextCompacted struct {
	SessionID      string  `wire:"session_id"`
	BeforeMessages uint64  `wire:"before_messages"`
	AfterMessages  uint64  `wire:"after_messages"`
	PercentBefore  float32 `wire:"percent_before"`
	Summary        *string `wire:"summary,omit"`
}

// PersistenceFailed says that a session could not be stored.
type PersistenceFailed struct {
	SessionID string `wire:"session_id"`
	Operation string `wire:"operation"`
	Error     string `wire:"error"`
}

// BudgetThresholdHit says that a budget has reached a limit. Kind is "soft" or
// "hard".
type BudgetThresholdHit struct {
	Resource string  `wire:"resource"`
	Kind     string  `wire:"kind"`
	Consumed float64 `wire:"consumed"`
	Limit    float64 `wire:"limit"`
	Message  *string `wire:"message,omit"`
}

// PassivationRequested says that a session has been asked to go to sleep. DeadlineMs
// is in ms.
type PassivationRequested struct {
	Reason     string  `wire:"reason"`
	DeadlineMs *uint64 `wire:"deadline_ms,omit"`
}

// PeerInvocation says that another session calls this one.
type PeerInvocation struct {
	FromSessionID string  `wire:"from_session_id"`
	FromTenantID  *string `wire:"from_tenant_id,omit"`
	CorrelationID *string `wire:"correlation_id,omit"`
}

// The sealed interface Event, one pair of methods for each type.

// EventType returns the wire name.
func (AgentStart) EventType() string { return EventAgentStart }
func (AgentStart) sealed()           {}

// EventType returns the wire name.
func (AgentModeChanged) EventType() string { return EventAgentModeChanged }
func (AgentModeChanged) sealed()           {}

// EventType returns the wire name.
func (TurnStart) EventType() string { return EventTurnStart }
func (TurnStart) sealed()           {}

// EventType returns the wire name.
func (TextDelta) EventType() string { return EventTextDelta }
func (TextDelta) sealed()           {}

// EventType returns the wire name.
func (ReasoningDelta) EventType() string { return EventReasoningDelta }
func (ReasoningDelta) sealed()           {}

// EventType returns the wire name.
func (ToolStart) EventType() string { return EventToolStart }
func (ToolStart) sealed()           {}

// EventType returns the wire name.
func (ToolInputDelta) EventType() string { return EventToolInputDelta }
func (ToolInputDelta) sealed()           {}

// EventType returns the wire name.
func (ToolRequestBound) EventType() string { return EventToolRequestBound }
func (ToolRequestBound) sealed()           {}

// EventType returns the wire name.
func (ToolExecutionStart) EventType() string { return EventToolExecutionStart }
func (ToolExecutionStart) sealed()           {}

// EventType returns the wire name.
func (ToolEnd) EventType() string { return EventToolEnd }
func (ToolEnd) sealed()           {}

// EventType returns the wire name.
func (ToolOutputDelta) EventType() string { return EventToolOutputDelta }
func (ToolOutputDelta) sealed()           {}

// EventType returns the wire name.
func (TurnEnd) EventType() string { return EventTurnEnd }
func (TurnEnd) sealed()           {}

// EventType returns the wire name.
func (AgentEnd) EventType() string { return EventAgentEnd }
func (AgentEnd) sealed()           {}

// EventType returns the wire name.
func (Error) EventType() string { return EventError }
func (Error) sealed()           {}

// EventType returns the wire name.
func (ConfirmationRequired) EventType() string { return EventConfirmationRequired }
func (ConfirmationRequired) sealed()           {}

// EventType returns the wire name.
func (ConfirmationReceived) EventType() string { return EventConfirmationReceived }
func (ConfirmationReceived) sealed()           {}

// EventType returns the wire name.
func (ConfirmationTimeout) EventType() string { return EventConfirmationTimeout }
func (ConfirmationTimeout) sealed()           {}

// EventType returns the wire name.
func (ExternalTaskPending) EventType() string { return EventExternalTaskPending }
func (ExternalTaskPending) sealed()           {}

// EventType returns the wire name.
func (ExternalTaskCompleted) EventType() string { return EventExternalTaskCompleted }
func (ExternalTaskCompleted) sealed()           {}

// EventType returns the wire name.
func (PermissionDenied) EventType() string { return EventPermissionDenied }
func (PermissionDenied) sealed()           {}

// EventType returns the wire name.
func (ContextResolving) EventType() string { return EventContextResolving }
func (ContextResolving) sealed()           {}

// EventType returns the wire name.
func (ContextResolved) EventType() string { return EventContextResolved }
func (ContextResolved) sealed()           {}

// EventType returns the wire name.
func (RunCapabilityBound) EventType() string { return EventRunCapabilityBound }
func (RunCapabilityBound) sealed()           {}

// EventType returns the wire name.
func (ModelPresentationBound) EventType() string { return EventModelPresentationBound }
func (ModelPresentationBound) sealed()           {}

// EventType returns the wire name.
func (ModelInputBound) EventType() string { return EventModelInputBound }
func (ModelInputBound) sealed()           {}

// EventType returns the wire name.
func (ModelUsageBound) EventType() string { return EventModelUsageBound }
func (ModelUsageBound) sealed()           {}

// EventType returns the wire name.
func (CognitiveContextBound) EventType() string { return EventCognitiveContextBound }
func (CognitiveContextBound) sealed()           {}

// EventType returns the wire name.
func (CommandDeadLettered) EventType() string { return EventCommandDeadLettered }
func (CommandDeadLettered) sealed()           {}

// EventType returns the wire name.
func (CommandRetry) EventType() string { return EventCommandRetry }
func (CommandRetry) sealed()           {}

// EventType returns the wire name.
func (QueueAlert) EventType() string { return EventQueueAlert }
func (QueueAlert) sealed()           {}

// EventType returns the wire name.
func (TaskUpdated) EventType() string { return EventTaskUpdated }
func (TaskUpdated) sealed()           {}

// EventType returns the wire name.
func (MemoryStored) EventType() string { return EventMemoryStored }
func (MemoryStored) sealed()           {}

// EventType returns the wire name.
func (MemoryRecalled) EventType() string { return EventMemoryRecalled }
func (MemoryRecalled) sealed()           {}

// EventType returns the wire name.
func (MemoriesSearched) EventType() string { return EventMemoriesSearched }
func (MemoriesSearched) sealed()           {}

// EventType returns the wire name.
func (MemoryCleared) EventType() string { return EventMemoryCleared }
func (MemoryCleared) sealed()           {}

// EventType returns the wire name.
func (SubagentStart) EventType() string { return EventSubagentStart }
func (SubagentStart) sealed()           {}

// EventType returns the wire name.
func (SubagentProgress) EventType() string { return EventSubagentProgress }
func (SubagentProgress) sealed()           {}

// EventType returns the wire name.
func (SubagentEnd) EventType() string { return EventSubagentEnd }
func (SubagentEnd) sealed()           {}

// EventType returns the wire name.
func (PlanningStart) EventType() string { return EventPlanningStart }
func (PlanningStart) sealed()           {}

// EventType returns the wire name.
func (PlanningEnd) EventType() string { return EventPlanningEnd }
func (PlanningEnd) sealed()           {}

// EventType returns the wire name.
func (StepStart) EventType() string { return EventStepStart }
func (StepStart) sealed()           {}

// EventType returns the wire name.
func (StepEnd) EventType() string { return EventStepEnd }
func (StepEnd) sealed()           {}

// EventType returns the wire name.
func (GoalExtracted) EventType() string { return EventGoalExtracted }
func (GoalExtracted) sealed()           {}

// EventType returns the wire name.
func (GoalProgress) EventType() string { return EventGoalProgress }
func (GoalProgress) sealed()           {}

// EventType returns the wire name.
func (GoalAchieved) EventType() string { return EventGoalAchieved }
func (GoalAchieved) sealed()           {}

// EventType returns the wire name.
func (ContextCompacted) EventType() string { return EventContextCompacted }
func (ContextCompacted) sealed()           {}

// EventType returns the wire name.
func (PersistenceFailed) EventType() string { return EventPersistenceFailed }
func (PersistenceFailed) sealed()           {}

// EventType returns the wire name.
func (BudgetThresholdHit) EventType() string { return EventBudgetThresholdHit }
func (BudgetThresholdHit) sealed()           {}

// EventType returns the wire name.
func (PassivationRequested) EventType() string { return EventPassivationRequested }
func (PassivationRequested) sealed()           {}

// EventType returns the wire name.
func (PeerInvocation) EventType() string { return EventPeerInvocation }
func (PeerInvocation) sealed()           {}
