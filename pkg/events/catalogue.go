package events

import (
	"slices"
)

// The event types of version 1, in the order of the catalogue.
const (
	EventAgentStart             = "agent_start"
	EventAgentModeChanged       = "agent_mode_changed"
	EventTurnStart              = "turn_start"
	EventTextDelta              = "text_delta"
	EventReasoningDelta         = "reasoning_delta"
	EventToolStart              = "tool_start"
	EventToolInputDelta         = "tool_input_delta"
	EventToolRequestBound       = "tool_request_bound"
	EventToolExecutionStart     = "tool_execution_start"
	EventToolEnd                = "tool_end"
	EventToolOutputDelta        = "tool_output_delta"
	EventTurnEnd                = "turn_end"
	EventAgentEnd               = "agent_end"
	EventError                  = "error"
	EventConfirmationRequired   = "confirmation_required"
	EventConfirmationReceived   = "confirmation_received"
	EventConfirmationTimeout    = "confirmation_timeout"
	EventExternalTaskPending    = "external_task_pending"
	EventExternalTaskCompleted  = "external_task_completed"
	EventPermissionDenied       = "permission_denied"
	EventContextResolving       = "context_resolving"
	EventContextResolved        = "context_resolved"
	EventRunCapabilityBound     = "run_capability_bound"
	EventModelPresentationBound = "model_presentation_bound"
	EventModelInputBound        = "model_input_bound"
	EventModelUsageBound        = "model_usage_bound"
	EventCognitiveContextBound  = "cognitive_context_bound"
	EventCommandDeadLettered    = "command_dead_lettered"
	EventCommandRetry           = "command_retry"
	EventQueueAlert             = "queue_alert"
	EventTaskUpdated            = "task_updated"
	EventMemoryStored           = "memory_stored"
	EventMemoryRecalled         = "memory_recalled"
	EventMemoriesSearched       = "memories_searched"
	EventMemoryCleared          = "memory_cleared"
	EventSubagentStart          = "subagent_start"
	EventSubagentProgress       = "subagent_progress"
	EventSubagentEnd            = "subagent_end"
	EventPlanningStart          = "planning_start"
	EventPlanningEnd            = "planning_end"
	EventStepStart              = "step_start"
	EventStepEnd                = "step_end"
	EventGoalExtracted          = "goal_extracted"
	EventGoalProgress           = "goal_progress"
	EventGoalAchieved           = "goal_achieved"
	EventContextCompacted       = "context_compacted"
	EventPersistenceFailed      = "persistence_failed"
	EventBudgetThresholdHit     = "budget_threshold_hit"
	EventPassivationRequested   = "passivation_requested"
	EventPeerInvocation         = "peer_invocation"
)

// catalogue is the union of all event types, with one struct of each, in order. The length
// of the array is fixed: if a type is missing, the program panics when it starts.
var catalogue = func() *union {
	known := unions{}
	unionOf(known, "ToolErrorKind", ToolErrorKind.Kind, toolErrorKinds)
	all := [50]Event{
		AgentStart{},
		AgentModeChanged{},
		TurnStart{},
		TextDelta{},
		ReasoningDelta{},
		ToolStart{},
		ToolInputDelta{},
		ToolRequestBound{},
		ToolExecutionStart{},
		ToolEnd{},
		ToolOutputDelta{},
		TurnEnd{},
		AgentEnd{},
		Error{},
		ConfirmationRequired{},
		ConfirmationReceived{},
		ConfirmationTimeout{},
		ExternalTaskPending{},
		ExternalTaskCompleted{},
		PermissionDenied{},
		ContextResolving{},
		ContextResolved{},
		RunCapabilityBound{},
		ModelPresentationBound{},
		ModelInputBound{},
		ModelUsageBound{},
		CognitiveContextBound{},
		CommandDeadLettered{},
		CommandRetry{},
		QueueAlert{},
		TaskUpdated{},
		MemoryStored{},
		MemoryRecalled{},
		MemoriesSearched{},
		MemoryCleared{},
		SubagentStart{},
		SubagentProgress{},
		SubagentEnd{},
		PlanningStart{},
		PlanningEnd{},
		StepStart{},
		StepEnd{},
		GoalExtracted{},
		GoalProgress{},
		GoalAchieved{},
		ContextCompacted{},
		PersistenceFailed{},
		BudgetThresholdHit{},
		PassivationRequested{},
		PeerInvocation{},
	}
	return unionOf(known, "AgentEvent", Event.EventType, all[:])
}()

// Types returns the names of the catalogue in order, as a copy.
func Types() []string { return slices.Clone(catalogue.tags) }

// TypeInfo describes an event type of the catalogue.
type TypeInfo struct {
	// Name is the wire name.
	Name string
	// Fields are the members of the payload in the order of the struct.
	Fields []Field
}

// Field describes one member of a payload.
type Field struct {
	// Name is the wire name.
	Name string
	// Type is string, bool, a number type such as u64, any, the name of a Go
	// type of this package, or one of these in brackets for a list.
	Type string
	// Required is whether decoding fails without the member.
	Required bool
}

// String returns the name and the type, with a question mark after the name if
// the member is not required.
func (f Field) String() string {
	mark := " "
	if !f.Required {
		mark = "? "
	}
	return f.Name + mark + f.Type
}

// Lookup describes the event type of that name. It reports false for a type that is not in
// the catalogue. Envelopes may have such types, since the set is open.
func Lookup(eventType string) (TypeInfo, bool) {
	i, ok := catalogue.byTag[eventType]
	if !ok {
		return TypeInfo{}, false
	}
	info := TypeInfo{Name: eventType}
	for _, f := range catalogue.members[i].fields {
		info.Fields = append(info.Fields, Field{f.name, f.shape.name, f.presence == required})
	}
	return info, true
}
