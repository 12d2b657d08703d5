package activation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

// scripted is an agent that does what its input says. An event is a script: statements
// with ";" between them. "suspend MS | REST" suspends, and REST is the snapshot: the script
// of the next activation. A snapshot may begin with the timeout policy, "@deny TEXT;", and
// an event with its name, "id NAME;".
type scripted struct{}

func (*scripted) EventID(event []byte) string {
	if name, ok := strings.CutPrefix(string(event), "id "); ok {
		name, _, _ = strings.Cut(name, ";")
		return name
	}
	return ""
}

func (*scripted) TimeoutPolicy(t agent.Timeout) agent.Route {
	policy, _, _ := strings.Cut(string(t.Snapshot), ";")
	words := strings.Fields(policy)
	if len(words) == 0 {
		words = []string{""}
	}
	switch words[0] {
	case "@resume":
		return agent.Resume()
	case "@drop":
		return agent.Drop(strings.Join(words[1:], " "))
	case "@escalate": // channel, ms, limit
		return agent.Escalate(words[1], ms(words[2]), int(ms(words[3]).Milliseconds()))
	case "@panic":
		panic("policy")
	case "@none":
		return agent.Route{}
	case "@deny":
		return agent.Deny([]byte(strings.Join(words[1:], " ")))
	}
	return agent.Deny([]byte("denied"))
}

func ms(text string) time.Duration {
	n, err := strconv.Atoi(text)
	if err != nil {
		panic(err)
	}
	return time.Duration(n) * time.Millisecond
}

func (*scripted) Run(ctx context.Context, act *agent.Activation) (agent.Outcome, error) {
	script := string(act.Snapshot())
	if act.Trigger().Kind == agent.Event {
		script = string(act.Trigger().Event)
	}
	first := true
	for script != "" {
		statement, rest, _ := strings.Cut(script, ";")
		if verb := strings.TrimSpace(statement); strings.HasPrefix(verb, "suspend ") {
			statement, rest, _ = strings.Cut(script, "|")
			return agent.Suspend([]byte(strings.TrimSpace(rest)), ms(strings.Fields(statement)[1])), nil
		}
		script = rest
		outcome, err := statementOf(ctx, act, strings.TrimSpace(statement), first)
		if err != nil || outcome.Kind != 0 {
			return outcome, err
		}
		first = false
	}
	return agent.Done(), nil
}

func statementOf(ctx context.Context, act *agent.Activation, statement string, first bool) (none agent.Outcome, err error) {
	verb, rest, _ := strings.Cut(statement, " ")
	word, more, _ := strings.Cut(rest, " ")
	switch verb {
	case "":
	case "id":
	case "act":
		return none, act.Act(word, json.RawMessage(more))
	case "ask":
		return none, act.RequestApproval(word, json.RawMessage(more))
	case "approved":
		return none, act.ActApproved()
	case "if-approved":
		if act.Trigger().Approved {
			return none, act.ActApproved()
		}
		return none, act.Emit([]byte("not approved"))
	case "expire":
		return none, act.ExpireIntentsAfter(ms(word))
	case "emit":
		return none, act.Emit([]byte(rest))
	case "answered": // by whom
		switch t := act.Trigger(); t.Kind {
		case agent.ToolResult:
			return none, act.Emit(t.Result.GetPayload())
		case agent.Approval:
			return none, act.Emit([]byte(t.Approver))
		}
	case "put":
		return none, agent.Put(act, word, []byte(more))
	case "get":
		value, ok, err := agent.Get[[]byte](act, word)
		if err != nil {
			return none, err
		}
		return none, act.Emit(fmt.Appendf(nil, "%s=%s %v", word, value, ok))
	case "delete":
		return none, agent.Delete(act, word)
	case "count":
		n, _, err := agent.Get[int](act, word)
		if err != nil {
			return none, err
		}
		return none, agent.Put(act, word, n+1)
	case "attribute":
		return none, act.SetAttribute(word, more)
	case "note":
		return none, act.Emit([]byte(noteOf(act)))
	case "fail":
		return none, errors.New(rest)
	case "panic":
		panic(rest)
	case "exit":
		runtime.Goexit()
	case "hang":
		<-ctx.Done()
	case "reject":
		return agent.Reject(errors.New(rest)), nil
	case "done":
		return agent.Done(), nil
	case "again":
		return agent.Suspend(act.Snapshot(), ms(word)), nil
	default:
		if !first || !strings.HasPrefix(verb, "@") {
			return none, fmt.Errorf("no statement: %q", statement)
		}
	}
	return none, nil
}

// noteOf describes the trigger of an activation.
func noteOf(act *agent.Activation) string {
	t := act.Trigger()
	text := fmt.Sprintf("%v seq=%d now=%d open=%d", t.Kind, act.Seq(), act.NowMS(), len(act.Open()))
	switch t.Kind {
	case agent.ToolResult:
		text += fmt.Sprintf(" of %s %v %q", t.Intent.GetToolName(), t.Result.GetStatus(), t.Bytes())
	case agent.Approval:
		text += fmt.Sprintf(" of %s %s %v by %s at %d", t.Intent.GetToolName(), t.Intent.GetArgsJson(), t.Approved, t.Approver, t.DecidedAtMS)
	case agent.Expired:
		text += " " + strings.Join(t.ExpiredIDs, ",")
	}
	return text
}
