package events

// TokenUsage is the tokens of one or more model calls.
type TokenUsage struct {
	PromptTokens     uint64  `wire:"prompt_tokens"`
	CompletionTokens uint64  `wire:"completion_tokens"`
	TotalTokens      uint64  `wire:"total_tokens"`
	CacheReadTokens  *uint64 `wire:"cache_read_tokens,null"`
	CacheWriteTokens *uint64 `wire:"cache_write_tokens,null"`
}

// LlmResponseMeta is what is known of a model's response. Times are in ms.
type LlmResponseMeta struct {
	Provider       *string `wire:"provider,omit"`
	RequestModel   *string `wire:"request_model,omit"`
	RequestURL     *string `wire:"request_url,omit"`
	ResponseID     *string `wire:"response_id,omit"`
	ResponseModel  *string `wire:"response_model,omit"`
	ResponseObject *string `wire:"response_object,omit"`
	FirstTokenMs   *uint64 `wire:"first_token_ms,omit"`
	DurationMs     *uint64 `wire:"duration_ms,omit"`
}

// Task is one task of a plan. An empty Priority is medium.
type Task struct {
	ID              string       `wire:"id"`
	Content         string       `alias:"description"            wire:"content"`
	Status          TaskStatus   `wire:"status"`
	Priority        TaskPriority `wire:"priority,default=medium"`
	Tool            *string      `wire:"tool,omit"`
	Dependencies    []string     `wire:"dependencies,empty"`
	SuccessCriteria *string      `wire:"success_criteria,omit"`
}

// ExecutionPlan is the steps towards a goal.
type ExecutionPlan struct {
	Goal           string     `wire:"goal"`
	Steps          []Task     `wire:"steps"`
	Complexity     Complexity `wire:"complexity"`
	RequiredTools  []string   `wire:"required_tools"`
	EstimatedSteps uint64     `wire:"estimated_steps"`
}

// AgentGoal is a goal and how far it is. Times are Unix seconds, Progress
// is from 0 to 1.
type AgentGoal struct {
	Description     string   `wire:"description"`
	SuccessCriteria []string `wire:"success_criteria"`
	Progress        float32  `wire:"progress"`
	Achieved        bool     `wire:"achieved"`
	CreatedAt       int64    `wire:"created_at"`
	AchievedAt      *int64   `wire:"achieved_at,null"`
}

// SessionLane is the lane of an external task.
type SessionLane string

// The values of SessionLane.
const (
	LaneControl  SessionLane = "Control"
	LaneQuery    SessionLane = "Query"
	LaneExecute  SessionLane = "Execute"
	LaneGenerate SessionLane = "Generate"
)

func (SessionLane) words() []string {
	return []string{string(LaneControl), string(LaneQuery), string(LaneExecute), string(LaneGenerate)}
}

// TaskStatus is the state of a task or step.
type TaskStatus string

// The values of TaskStatus.
const (
	TaskPending    TaskStatus = "pending"
	TaskInProgress TaskStatus = "in_progress"
	TaskCompleted  TaskStatus = "completed"
	TaskFailed     TaskStatus = "failed"
	TaskSkipped    TaskStatus = "skipped"
	TaskCancelled  TaskStatus = "cancelled"
)

func (TaskStatus) words() []string {
	return []string{string(TaskPending), string(TaskInProgress), string(TaskCompleted), string(TaskFailed), string(TaskSkipped), string(TaskCancelled)}
}

// TaskPriority is the priority of a task.
type TaskPriority string

// The values of TaskPriority.
const (
	PriorityHigh   TaskPriority = "high"
	PriorityMedium TaskPriority = "medium"
	PriorityLow    TaskPriority = "low"
)

func (TaskPriority) words() []string {
	return []string{string(PriorityHigh), string(PriorityMedium), string(PriorityLow)}
}

// Complexity is how complex a plan is.
type Complexity string

// The values of Complexity.
const (
	ComplexitySimple      Complexity = "Simple"
	ComplexityMedium      Complexity = "Medium"
	ComplexityComplex     Complexity = "Complex"
	ComplexityVeryComplex Complexity = "VeryComplex"
)

func (Complexity) words() []string {
	return []string{string(ComplexitySimple), string(ComplexityMedium), string(ComplexityComplex), string(ComplexityVeryComplex)}
}
