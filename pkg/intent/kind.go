package intent

import beamagentspb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"

// Kind is what an intent asks for. Its zero value is Unknown.
type Kind uint8

// The kinds. An intent of kind Unknown must be neither executed nor shown for approval.
const (
	Unknown  Kind = iota // a kind from a newer schema
	Tool                 // run a tool
	Approval             // ask a human
)

// KindOf returns what in asks for. TOOL is Tool, and so is TOOL_KIND_UNSPECIFIED, which was
// written before kinds existed. Only APPROVAL is Approval. Every other number, and a nil intent,
// is Unknown.
func KindOf(in *beamagentspb.ToolIntent) Kind {
	if in == nil {
		return Unknown
	}
	switch in.Kind {
	case beamagentspb.ToolIntent_TOOL_KIND_UNSPECIFIED, beamagentspb.ToolIntent_TOOL:
		return Tool
	case beamagentspb.ToolIntent_APPROVAL:
		return Approval
	}
	return Unknown
}

// String returns "tool", "approval" or "unknown".
func (k Kind) String() string {
	switch k {
	case Tool:
		return "tool"
	case Approval:
		return "approval"
	default:
		return "unknown"
	}
}
