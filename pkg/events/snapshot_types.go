package events

// The snapshots refuse unknown members at every level. Decoding checks only the shape of a
// snapshot, and neither schema names nor digests ("sha256:" and 64 hexadecimal digits).

// ToolRequestSnapshotV1 is a tool request. Its schema is
// "a3s.code.tool-request-snapshot.v1".
type ToolRequestSnapshotV1 struct {
	Schema          string            `wire:"schema"`
	Origin          ToolRequestOrigin `wire:"origin"`
	ToolIDDigest    string            `wire:"toolIdDigest"`
	ToolNameDigest  string            `wire:"toolNameDigest"`
	ArgumentsBytes  uint64            `wire:"argumentsBytes"`
	ArgumentsDigest string            `wire:"argumentsDigest"`
	SnapshotDigest  string            `wire:"snapshotDigest"`
}

// RunCapabilitySnapshotV1 is what a run may do. Its schema is
// "a3s.code.run-capability-snapshot.v1".
type RunCapabilitySnapshotV1 struct {
	Schema                  string                `wire:"schema"`
	ModelVisibleToolCount   uint64                `wire:"modelVisibleToolCount"`
	ModelVisibleToolsDigest string                `wire:"modelVisibleToolsDigest"`
	Workspace               WorkspaceCapabilities `wire:"workspace"`
	Policy                  PolicyCapabilities    `wire:"policy"`
	Retrieval               RetrievalCapabilities `wire:"retrieval"`
	SnapshotDigest          string                `wire:"snapshotDigest"`
}

// WorkspaceCapabilities is what a run may do with its workspace.
type WorkspaceCapabilities struct {
	Read             bool `wire:"read"`
	Write            bool `wire:"write"`
	Exec             bool `wire:"exec"`
	Search           bool `wire:"search"`
	Git              bool `wire:"git"`
	CodeIntelligence bool `wire:"codeIntelligence"`
}

// PolicyCapabilities is the limits of a run. Times are in ms.
type PolicyCapabilities struct {
	PermissionCheckerBound      bool    `wire:"permissionCheckerBound"`
	PermissionPolicyDigest      *string `wire:"permissionPolicyDigest,null"`
	ConfirmationManagerBound    bool    `wire:"confirmationManagerBound"`
	ConfirmationPolicyDigest    *string `wire:"confirmationPolicyDigest,null"`
	BudgetGuardBound            bool    `wire:"budgetGuardBound"`
	ActiveSkillToolRestrictions bool    `wire:"activeSkillToolRestrictions"`
	MaxToolRounds               uint64  `wire:"maxToolRounds"`
	MaxParallelTasks            uint64  `wire:"maxParallelTasks"`
	ToolTimeoutMs               *uint64 `wire:"toolTimeoutMs,null"`
	LlmAPITimeoutMs             *uint64 `wire:"llmApiTimeoutMs,null"`
	MaxExecutionTimeMs          *uint64 `wire:"maxExecutionTimeMs,null"`
}

// RetrievalCapabilities is the state of retrieval. CoverageBps is in
// hundredths of a percent.
type RetrievalCapabilities struct {
	Enabled         bool           `wire:"enabled"`
	Phase           RetrievalPhase `wire:"phase"`
	CatalogRevision uint64         `wire:"catalogRevision"`
	SourceRevision  uint64         `wire:"sourceRevision"`
	VectorRevision  uint64         `wire:"vectorRevision"`
	CoverageBps     uint16         `wire:"coverageBps"`
	ModelDigest     *string        `wire:"modelDigest,null"`
}

// ModelPresentationSnapshotV1 is which tools a model sees. Its schema is
// "a3s.code.model-presentation-snapshot.v1".
type ModelPresentationSnapshotV1 struct {
	Schema                         string                    `wire:"schema"`
	CallSequence                   uint64                    `wire:"callSequence"`
	Profile                        ToolPresentationProfileV1 `wire:"profile"`
	Application                    PresentationApplication   `wire:"application"`
	SourceToolCount                uint64                    `wire:"sourceToolCount"`
	SourceToolDefinitionsDigest    string                    `wire:"sourceToolDefinitionsDigest"`
	SourceEstimatedTokens          uint64                    `wire:"sourceEstimatedTokens"`
	PresentedToolCount             uint64                    `wire:"presentedToolCount"`
	PresentedToolDefinitionsDigest string                    `wire:"presentedToolDefinitionsDigest"`
	PresentedEstimatedTokens       uint64                    `wire:"presentedEstimatedTokens"`
	SnapshotDigest                 string                    `wire:"snapshotDigest"`
}

// ToolPresentationProfileV1 is how tools are shown. Its schema is
// "a3s.code.tool-presentation-profile.v1".
type ToolPresentationProfileV1 struct {
	Schema string           `wire:"schema"`
	Mode   PresentationMode `wire:"mode"`
}

// ModelInputSnapshotV1 is the input of a model call. Its schema is
// "a3s.code.model-input-snapshot.v1".
type ModelInputSnapshotV1 struct {
	Schema                   string         `wire:"schema"`
	CallSequence             uint64         `wire:"callSequence"`
	Kind                     ModelInputKind `wire:"kind"`
	MessageCount             uint64         `wire:"messageCount"`
	ContentBlockCount        uint64         `wire:"contentBlockCount"`
	ImageBlockCount          uint64         `wire:"imageBlockCount"`
	ToolResultCount          uint64         `wire:"toolResultCount"`
	ToolCount                uint64         `wire:"toolCount"`
	RetrievalResultCount     uint64         `wire:"retrievalResultCount"`
	RetrievalResultBytes     uint64         `wire:"retrievalResultBytes"`
	RetrievalResultsDigest   *string        `wire:"retrievalResultsDigest,null"`
	SystemBytes              uint64         `wire:"systemBytes"`
	MessagePayloadBytes      uint64         `wire:"messagePayloadBytes"`
	ToolDefinitionBytes      uint64         `wire:"toolDefinitionBytes"`
	StructuredOutputBytes    uint64         `wire:"structuredOutputBytes"`
	PayloadBytes             uint64         `wire:"payloadBytes"`
	EstimatedPromptTokens    uint64         `wire:"estimatedPromptTokens"`
	MessagesDigest           string         `wire:"messagesDigest"`
	SystemDigest             *string        `wire:"systemDigest,null"`
	ToolDefinitionsDigest    string         `wire:"toolDefinitionsDigest"`
	StructuredOutputDigest   *string        `wire:"structuredOutputDigest,null"`
	InputDigest              string         `wire:"inputDigest"`
	CapabilitySnapshotDigest string         `wire:"capabilitySnapshotDigest"`
	SnapshotDigest           string         `wire:"snapshotDigest"`
}

// ModelUsageSnapshotV1 is what a model call used. Its schema is
// "a3s.code.model-usage-snapshot.v1".
type ModelUsageSnapshotV1 struct {
	Schema                   string          `wire:"schema"`
	CallSequence             uint64          `wire:"callSequence"`
	InputSnapshotDigest      string          `wire:"inputSnapshotDigest"`
	EstimatedPromptTokens    uint64          `wire:"estimatedPromptTokens"`
	ReportedPromptTokens     uint64          `wire:"reportedPromptTokens"`
	ReportedCompletionTokens uint64          `wire:"reportedCompletionTokens"`
	ReportedTotalTokens      uint64          `wire:"reportedTotalTokens"`
	ReportedCacheReadTokens  *uint64         `wire:"reportedCacheReadTokens,null"`
	ReportedCacheWriteTokens *uint64         `wire:"reportedCacheWriteTokens,null"`
	ToolResults              ToolResultUsage `wire:"toolResults"`
	SnapshotDigest           string          `wire:"snapshotDigest"`
}

// ToolResultUsage is the tool results in a model call's input.
type ToolResultUsage struct {
	TotalCount              uint64  `wire:"totalCount"`
	UniqueCount             uint64  `wire:"uniqueCount"`
	RepeatedCount           uint64  `wire:"repeatedCount"`
	ContentBytes            uint64  `wire:"contentBytes"`
	RepeatedContentBytes    uint64  `wire:"repeatedContentBytes"`
	EstimatedTokens         uint64  `wire:"estimatedTokens"`
	RepeatedEstimatedTokens uint64  `wire:"repeatedEstimatedTokens"`
	ContentsDigest          *string `wire:"contentsDigest,null"`
	RepeatedContentsDigest  *string `wire:"repeatedContentsDigest,null"`
}

// CognitivePackageBindingV1 is a knowledge package bound to a session. Its
// schema is "a3s.code.cognitive-package-session-binding.v1".
type CognitivePackageBindingV1 struct {
	Schema                   string                `wire:"schema"`
	PackageID                string                `wire:"packageId"`
	PackageVersion           string                `wire:"packageVersion"`
	LifecycleGeneration      uint64                `wire:"lifecycleGeneration"`
	GenerationDigest         string                `wire:"generationDigest"`
	CapabilitySnapshotDigest string                `wire:"capabilitySnapshotDigest"`
	Knowledge                KnowledgeLeaseBinding `wire:"knowledge"`
	Limits                   KnowledgeLimits       `wire:"limits"`
}

// KnowledgeLeaseBinding is the lease on the knowledge of a package. Its
// schemas are "agentic.ontology.r0-knowledge-lease-binding.v1" and, for
// search, read and citation, "a3s.use.okf-knowledge-search-request.v1",
// "a3s.use.okf-knowledge-read-request.v1" and
// "a3s.use.okf-knowledge-citation.v1".
type KnowledgeLeaseBinding struct {
	Schema              string `wire:"schema"`
	SurfaceID           string `wire:"surfaceId"`
	FormatVersion       string `wire:"formatVersion"`
	ContentDigest       string `wire:"contentDigest"`
	SearchSchema        string `wire:"searchSchema"`
	ReadSchema          string `wire:"readSchema"`
	CitationSchema      string `wire:"citationSchema"`
	LifecycleGeneration uint64 `wire:"lifecycleGeneration"`
	GenerationDigest    string `wire:"generationDigest"`
}

// KnowledgeLimits is bounds on what is read. Missing members read as 4
// results, 6144 and 6144 bytes.
type KnowledgeLimits struct {
	MaxResults       uint64 `wire:"maxResults,default=4"`
	MaxDocumentBytes uint64 `wire:"maxDocumentBytes,default=6144"`
	MaxTotalBytes    uint64 `wire:"maxTotalBytes,default=6144"`
}

// ToolRequestOrigin is who asked for a tool.
type ToolRequestOrigin string

// The values of ToolRequestOrigin.
const (
	OriginAgent                    ToolRequestOrigin = "agent"
	OriginNested                   ToolRequestOrigin = "nested"
	OriginHostDirectTrusted        ToolRequestOrigin = "host_direct_trusted"
	OriginHostDirectGoverned       ToolRequestOrigin = "host_direct_governed"
	OriginHostDirectNestedTrusted  ToolRequestOrigin = "host_direct_nested_trusted"
	OriginHostDirectNestedGoverned ToolRequestOrigin = "host_direct_nested_governed"
)

func (ToolRequestOrigin) words() []string {
	return []string{string(OriginAgent), string(OriginNested), string(OriginHostDirectTrusted), string(OriginHostDirectGoverned), string(OriginHostDirectNestedTrusted), string(OriginHostDirectNestedGoverned)}
}

// RetrievalPhase is the phase of retrieval.
type RetrievalPhase string

// The values of RetrievalPhase.
const (
	RetrievalDisabled RetrievalPhase = "disabled"
	RetrievalBuilding RetrievalPhase = "building"
	RetrievalReady    RetrievalPhase = "ready"
	RetrievalDegraded RetrievalPhase = "degraded"
	RetrievalClosed   RetrievalPhase = "closed"
)

func (RetrievalPhase) words() []string {
	return []string{string(RetrievalDisabled), string(RetrievalBuilding), string(RetrievalReady), string(RetrievalDegraded), string(RetrievalClosed)}
}

// PresentationMode is how tools are presented.
type PresentationMode string

// The values of PresentationMode.
const (
	PresentationAdaptive PresentationMode = "adaptive"
	PresentationDirect   PresentationMode = "direct"
	PresentationCode     PresentationMode = "code"
	PresentationDisabled PresentationMode = "disabled"
)

func (PresentationMode) words() []string {
	return []string{string(PresentationAdaptive), string(PresentationDirect), string(PresentationCode), string(PresentationDisabled)}
}

// PresentationApplication is where a presentation applies.
type PresentationApplication string

// The values of PresentationApplication.
const (
	ApplicationProfiled  PresentationApplication = "profiled"
	ApplicationAuxiliary PresentationApplication = "auxiliary"
)

func (PresentationApplication) words() []string {
	return []string{string(ApplicationProfiled), string(ApplicationAuxiliary)}
}

// ModelInputKind is the kind of a model call.
type ModelInputKind string

// The values of ModelInputKind.
const (
	ModelInputCompletion          ModelInputKind = "completion"
	ModelInputStreaming           ModelInputKind = "streaming"
	ModelInputStructured          ModelInputKind = "structured"
	ModelInputStreamingStructured ModelInputKind = "streaming_structured"
)

func (ModelInputKind) words() []string {
	return []string{string(ModelInputCompletion), string(ModelInputStreaming), string(ModelInputStructured), string(ModelInputStreamingStructured)}
}
