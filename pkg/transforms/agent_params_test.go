package transforms

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

type paramsAgent struct{}

func (*paramsAgent) Run(context.Context, *agent.Activation) (agent.Outcome, error) {
	return agent.Done(), nil
}

// AgentParams has every option of the rules under the same name, and passes it on.
func TestAgentParamsHaveTheOptionsOfTheRules(t *testing.T) {
	params := AgentParams{
		Name: "test", Agent: new(paramsAgent), ActivationTimeout: time.Second, TTL: time.Minute, WhileSuspended: Reject,
		MaxDeferred: 1, MaxDeferredBytes: 2, MaxIntents: 3, MaxOutputBytes: 4, MaxSnapshotBytes: 5, MaxActivationsPerHour: 6, MeasureDurations: true,
		MaxTokens: 7, MaxModelCalls: 8, NoModelMemo: true,
	}
	common, err := params.common()
	if err != nil {
		t.Fatal(err)
	}
	got, given := reflect.ValueOf(common), reflect.ValueOf(params)
	for i := range got.NumField() {
		name := got.Type().Field(i).Name
		if field := given.FieldByName(name); !field.IsValid() || field.IsZero() || got.Field(i).Interface() != field.Interface() {
			t.Errorf("%s is %v", name, got.Field(i))
		}
	}
	if given.NumField() != got.NumField()+2 { // Concurrency and HoldWatermark
		t.Errorf("AgentParams has %d fields, activation.AgentParams %d", given.NumField(), got.NumField())
	}
	for _, bad := range []int{-1, maxConcurrency + 1} {
		params.Concurrency = bad
		if _, err := newRunAgentFn(params); err == nil || !strings.Contains(err.Error(), "AgentParams.Concurrency is") {
			t.Errorf("with a Concurrency of %d: %v", bad, err)
		}
	}
}
