package transforms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

func init() { RegisterAgent[*scriptedAgent]() }

// scriptedAgent does what the event says, and after a suspension what the snapshot says.
type scriptedAgent struct {
	Route   string // what its TimeoutPolicy returns: deny, drop, resume, escalate, panic
	Version uint32
	Jitter  int // at most so many microseconds of waiting, by the text of the script
}

// script is what an activation does.
type script struct {
	ID      string   `json:"id,omitempty"`
	Act     []string `json:"act,omitempty"`     // tools
	Ask     []string `json:"ask,omitempty"`     // tools that are to be approved
	Emit    []string `json:"emit,omitempty"`    // outputs
	Put     []string `json:"put,omitempty"`     // name=value
	Count   string   `json:"count,omitempty"`   // name of a counter in memory, which is emitted
	Big     int      `json:"big,omitempty"`     // bytes of an output
	Use     bool     `json:"use,omitempty"`     // ActApproved
	SleepMS int      `json:"sleep,omitempty"`   // in the activation
	Expire  int      `json:"expire,omitempty"`  // ms, of the intents
	Then    string   `json:"then,omitempty"`    // done, suspend, reject, fail, panic, exit, nothing, hang, deaf
	Timeout int64    `json:"timeout,omitempty"` // ms, of a suspension
	Next    *script  `json:"next,omitempty"`    // what the resumed activation does
}

func (a *scriptedAgent) EventID(event []byte) string {
	var s script
	if json.Unmarshal(event, &s) != nil {
		return ""
	}
	return s.ID
}

func (a *scriptedAgent) SnapshotVersion() uint32 { return a.Version }

func (a *scriptedAgent) MigrateSnapshot(from uint32, snapshot []byte) ([]byte, error) {
	return bytes.Replace(snapshot, []byte("{"), fmt.Appendf(nil, `{"emit":["migrated from %d"],`, from), 1), nil
}

func (a *scriptedAgent) TimeoutPolicy(t agent.Timeout) agent.Route {
	switch a.Route {
	case "drop":
		return agent.Drop("too late")
	case "resume":
		return agent.Resume()
	case "escalate":
		return agent.Escalate("boss", time.Minute, 2)
	case "panic":
		panic("policy")
	}
	return agent.Deny([]byte("denied"))
}

// release ends agents that ignore their context.
var release = make(chan struct{})

func (a *scriptedAgent) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	t := act.Trigger()
	text := t.Bytes()
	if t.Kind != agent.Event {
		if err := act.Emit(fmt.Appendf(nil, "%v approved=%v expired=%d payload=%s", t.Kind, t.Approved, len(t.ExpiredIDs), t.Bytes())); err != nil {
			return agent.Outcome{}, err
		}
		text = act.Snapshot()
	}
	var s script
	if len(text) > 0 {
		if err := json.Unmarshal(text, &s); err != nil {
			return agent.Reject(err), nil
		}
	}
	if a.Jitter > 0 {
		time.Sleep(time.Duration(len(text)*7919%a.Jitter) * time.Microsecond)
	}
	if s.SleepMS > 0 {
		select {
		case <-time.After(time.Duration(s.SleepMS) * time.Millisecond):
		case <-ctx.Done():
			return agent.Outcome{}, ctx.Err()
		}
	}
	var errs []error
	errs = append(errs, act.ExpireIntentsAfter(time.Duration(s.Expire)*time.Millisecond))
	for _, tool := range s.Act {
		errs = append(errs, act.Act(tool, map[string]any{"from": s.ID}))
	}
	for _, tool := range s.Ask {
		errs = append(errs, act.RequestApproval(tool, map[string]any{"from": s.ID}))
	}
	for _, out := range s.Emit {
		errs = append(errs, act.Emit([]byte(out)))
	}
	if s.Big > 0 {
		errs = append(errs, act.Emit(bytes.Repeat([]byte("b"), s.Big)))
	}
	for _, pair := range s.Put {
		name, value, _ := strings.Cut(pair, "=")
		errs = append(errs, agent.Put(act, name, []byte(value)))
	}
	if s.Count != "" {
		n, _, err := agent.Get[int](act, s.Count)
		errs = append(errs, err, agent.Put(act, s.Count, n+1), act.Emit(fmt.Appendf(nil, "%s %d at %d", s.Count, n+1, act.NowMS())))
	}
	if s.Use {
		errs = append(errs, act.ActApproved())
	}
	if err := errors.Join(errs...); err != nil {
		return agent.Outcome{}, err
	}
	switch s.Then {
	case "suspend":
		var snapshot []byte
		if s.Next != nil {
			snapshot, _ = json.Marshal(s.Next)
		}
		return agent.Suspend(snapshot, time.Duration(s.Timeout)*time.Millisecond), nil
	case "reject":
		return agent.Reject(errors.New("unusable")), nil
	case "fail":
		return agent.Outcome{}, errors.New("it failed")
	case "panic":
		panic("it panicked")
	case "exit":
		runtime.Goexit()
	case "nothing":
		return agent.Outcome{}, nil
	case "hang":
		<-ctx.Done()
		return agent.Done(), nil
	case "deaf":
		<-release
		_ = act.Emit([]byte("after the end"))
	}
	return agent.Done(), nil
}
