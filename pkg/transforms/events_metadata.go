package transforms

import (
	"fmt"

	"github.com/beamagents/beamagents-go/pkg/deadletter"
	"github.com/beamagents/beamagents-go/pkg/events"
)

// The members of an event's metadata that say where in a run the event happened; see
// events.RunRecord.
const (
	runMember      = "run_id"
	sessionMember  = "session_id"
	sequenceMember = "sequence"
	timeMember     = "timestamp_ms"
)

// runPosition is where in a run an event happened.
type runPosition struct {
	sessionID, runID string
	sequence         uint64
	timeMS           int64
}

// positionOf reads the position of an event. A code other than "" says that the metadata has no
// valid position, and text says why.
func positionOf(metadata events.Value) (p runPosition, code deadletter.Code, text string) {
	if p.sessionID, code, text = stringOf(metadata, sessionMember); code != "" {
		return p, code, text
	}
	if p.runID, code, text = stringOf(metadata, runMember); code != "" {
		return p, code, text
	}
	if p.timeMS, code, text = timeOf(metadata); code != "" {
		return p, code, text
	}
	v, ok := metadata.Get(sequenceMember)
	if !ok {
		code, text = missingMember(metadata, sequenceMember)
	} else if p.sequence, ok = v.Uint64(); !ok {
		code, text = deadletter.WrongType, "metadata.sequence is not an integer from 0 to 2^64-1"
	}
	return p, code, text
}

func stringOf(metadata events.Value, name string) (s string, code deadletter.Code, text string) {
	v, ok := metadata.Get(name)
	if !ok {
		code, text = missingMember(metadata, name)
	} else if s, ok = v.Str(); !ok {
		code, text = deadletter.WrongType, "metadata."+name+" is not a string"
	}
	return s, code, text
}

func timeOf(metadata events.Value) (ms int64, code deadletter.Code, text string) {
	v, ok := metadata.Get(timeMember)
	if !ok {
		code, text = missingMember(metadata, timeMember)
	} else if ms, ok = v.Int64(); !ok || ms < 0 || ms > maxEventTimeMS {
		code, text = deadletter.WrongType, fmt.Sprintf("metadata.timestamp_ms is not an integer from 0 to %d", int64(maxEventTimeMS))
	}
	return ms, code, text
}

func missingMember(metadata events.Value, name string) (deadletter.Code, string) {
	switch {
	case metadata.IsNull():
		return deadletter.MissingField, "missing field `metadata`"
	case metadata.JSON()[0] != '{':
		return deadletter.WrongType, "metadata is not an object"
	}
	return deadletter.MissingField, "missing field `metadata." + name + "`"
}
