package events

// ToolErrorKind tells why a tool failed. The set is closed: the 11 types
// whose names start with ToolError.
type ToolErrorKind interface {
	// Kind returns the wire name.
	Kind() string
	sealedKind()
}

// toolErrorKinds lists one of each type.
var toolErrorKinds = []ToolErrorKind{
	ToolErrorVersionConflict{},
	ToolErrorRemoteGitConflict{},
	ToolErrorNotFound{},
	ToolErrorInvalidArgument{},
	ToolErrorHookDenied{},
	ToolErrorUnsupported{},
	ToolErrorTimeout{},
	ToolErrorTransport{},
	ToolErrorCancelled{},
	ToolErrorPartialFailure{},
	ToolErrorRateLimited{},
}

// ToolErrorVersionConflict says that the resource has another version than expected.
type ToolErrorVersionConflict struct {
	Path     string  `wire:"path"`
	Expected string  `wire:"expected"`
	Actual   *string `wire:"actual,null"`
}

// ToolErrorRemoteGitConflict says that a remote repository refused.
type ToolErrorRemoteGitConflict struct {
	Code    string `wire:"code"`
	Message string `wire:"message"`
}

// ToolErrorNotFound says that there is no such path.
type ToolErrorNotFound struct {
	Path string `wire:"path"`
}

// ToolErrorInvalidArgument says that the tool cannot work with its arguments.
type ToolErrorInvalidArgument struct {
	Message string `wire:"message"`
}

// ToolErrorHookDenied says that a hook refused. RetryAfterMs is in ms.
type ToolErrorHookDenied struct {
	Reason       string  `wire:"reason"`
	Retryable    bool    `wire:"retryable"`
	RetryAfterMs *uint64 `wire:"retry_after_ms,null"`
}

// ToolErrorUnsupported says that the tool cannot do that.
type ToolErrorUnsupported struct {
	Message string `wire:"message"`
}

// ToolErrorTimeout says that the operation took too long. DurationMs is in ms.
type ToolErrorTimeout struct {
	Op         string `wire:"op"`
	DurationMs uint64 `wire:"duration_ms"`
}

// ToolErrorTransport says that the operation could not reach its target.
type ToolErrorTransport struct {
	Op string `wire:"op"`
}

// ToolErrorCancelled says that the operation was cancelled.
type ToolErrorCancelled struct {
	Op string `wire:"op"`
}

// ToolErrorPartialFailure says that some of many failed.
type ToolErrorPartialFailure struct {
	Failed uint64 `wire:"failed"`
	Total  uint64 `wire:"total"`
}

// ToolErrorRateLimited says that there were too many calls. RetryAfterMs is in ms.
type ToolErrorRateLimited struct {
	RetryAfterMs *uint64 `wire:"retry_after_ms,null"`
}

// Kind returns the wire name.
func (ToolErrorVersionConflict) Kind() string { return "version_conflict" }
func (ToolErrorVersionConflict) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorRemoteGitConflict) Kind() string { return "remote_git_conflict" }
func (ToolErrorRemoteGitConflict) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorNotFound) Kind() string { return "not_found" }
func (ToolErrorNotFound) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorInvalidArgument) Kind() string { return "invalid_argument" }
func (ToolErrorInvalidArgument) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorHookDenied) Kind() string { return "hook_denied" }
func (ToolErrorHookDenied) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorUnsupported) Kind() string { return "unsupported" }
func (ToolErrorUnsupported) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorTimeout) Kind() string { return "timeout" }
func (ToolErrorTimeout) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorTransport) Kind() string { return "transport" }
func (ToolErrorTransport) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorCancelled) Kind() string { return "cancelled" }
func (ToolErrorCancelled) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorPartialFailure) Kind() string { return "partial_failure" }
func (ToolErrorPartialFailure) sealedKind()  {}

// Kind returns the wire name.
func (ToolErrorRateLimited) Kind() string { return "rate_limited" }
func (ToolErrorRateLimited) sealedKind()  {}
