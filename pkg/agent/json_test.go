package agent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"

	strictjson "github.com/go-json-experiment/json"

	"github.com/beamagents/beamagents-go/pkg/agent"
	"github.com/beamagents/beamagents-go/pkg/memory"
)

type purchase struct {
	ID    string         `json:"id"`
	Cents int8           `json:"cents"`
	Items []purchaseItem `json:"items"`
	Own   ownForm        `json:"own"`
}

type purchaseItem struct {
	N uint `json:"n"`
}

// ownForm reads and writes itself.
type ownForm struct{ fail bool }

func (*ownForm) UnmarshalJSON(b []byte) error {
	if string(b) == `"nested"` {
		return strictjson.Unmarshal([]byte(`{"n": "x"}`), new(purchaseItem))
	}
	return errors.New("own error")
}

func (o ownForm) MarshalJSON() ([]byte, error) {
	if o.fail {
		return nil, errors.New("own error")
	}
	return []byte("1"), nil
}

// The texts of errors become dead letters. Package json has errors whose texts have one of
// two words in each process, unless the options are those of encoding/json.
func TestErrorsOfJSONAreTheSameInEveryProcess(t *testing.T) {
	decode := func(text string) error {
		return agent.Trigger{Kind: agent.Event, Event: []byte(text)}.JSON(new(purchase))
	}
	act := func() *agent.Activation {
		m := memory.New(nil, 0)
		return agent.Begin(agent.Start{MaxIntents: 1, MaxOutputBytes: 1000, Memory: func() (*memory.Memory, error) { return m, nil }})
	}
	get := func(text string) error {
		a := act()
		if err := agent.Put(a, "m", json.RawMessage(text)); err != nil {
			return err
		}
		_, _, err := agent.Get[purchase](a, "m")
		return err
	}
	const into = "decode JSON into *agent_test.purchase: "
	for _, c := range []struct {
		err  error
		want string
	}{
		{decode(`{"id": 1}`), "agent: the event: " + into + "json: cannot unmarshal number into Go struct field purchase.id of type string"},
		{decode(`{"cents": 300}`), "agent: the event: " + into + "json: cannot unmarshal number 300 into Go struct field purchase.cents of type int8"},
		{decode(`{"items": [{"n": -1}]}`), "agent: the event: " + into + "json: cannot unmarshal number -1 into Go struct field purchase.items.0.n of type uint"},
		{decode(`{"items": {}}`), "agent: the event: " + into + "json: cannot unmarshal object into Go struct field purchase.items of type []agent_test.purchaseItem"},
		{decode(`{"own": 1}`), "agent: the event: " + into + "own error"},
		{decode(`{"own": "nested"}`), "agent: the event: " + into + "json: cannot unmarshal string into Go struct field purchase.n of type uint"},
		{decode(`[]`), "agent: the event: " + into + "json: cannot unmarshal array into Go value of type agent_test.purchase"},
		{get(`{"id": 1}`), `agent: memory "m": ` + into + "json: cannot unmarshal number into Go struct field purchase.id of type string"},
		{act().EmitJSON(make(chan int)), "agent: output: invalid text: encode chan int as JSON: json: unsupported type: chan int"},
		{act().EmitJSON(math.NaN()), "agent: output: invalid text: encode float64 as JSON: json: unsupported value: NaN"},
		{act().Act("t", map[string]any{"a": func() {}}), `agent: args of "t": invalid text: encode map[string]interface {} as JSON: json: unsupported type: func()`},
		{act().Act("t", ownForm{true}), `agent: args of "t": invalid text: encode agent_test.ownForm as JSON: json: error calling MarshalJSON for type *agent_test.ownForm: own error`},
		{agent.Put(act(), "m", map[string]any{"a": make(chan int)}), `agent: memory "m": invalid text: encode map[string]interface {} as JSON: json: unsupported type: chan int`},
	} {
		if got := fmt.Sprint(c.err); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
	for text, want := range map[string]string{
		`{"id": `:              "unexpected end of JSON input",
		`{"id": "a", "id": 1}`: "duplicate object member name",
	} {
		if got := fmt.Sprint(decode(text)); got != "agent: the event: "+into+want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
