package activation

import (
	"fmt"
	"time"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/internal/isolate"
)

// Failure says how code of the agent's author failed.
type Failure struct {
	Reason deadletter.Reason
	Code   deadletter.Code
	Text   string
}

// FailureOf returns the failure of code that ran with a time limit, or nil if the code returned.
// result and text are those of isolate.Run.
func FailureOf(result isolate.Result, text string, limit time.Duration) *Failure {
	switch result {
	case isolate.Returned:
		return nil
	case isolate.Panicked:
		return &Failure{Reason: deadletter.ActivationError, Code: deadletter.Panicked, Text: text}
	case isolate.Exited:
		return &Failure{Reason: deadletter.ActivationError, Code: deadletter.Exited, Text: "the agent called runtime.Goexit"}
	case isolate.TimedOut, isolate.Abandoned:
	}
	return &Failure{
		Reason: deadletter.ActivationTimeout, Code: deadletter.Limit, Text: fmt.Sprintf("the activation took more than %v", limit),
	}
}
