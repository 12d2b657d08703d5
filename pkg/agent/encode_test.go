package agent_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/beamagents/beamagents-go/pkg/agent"
)

type plain struct{}

func (plain) Run(context.Context, *agent.Activation) (agent.Outcome, error) { return agent.Done(), nil }

type (
	configured struct {
		plain
		Limit int
		Names []string
	}
	hidden struct {
		plain
		limit int
	}
	omitted struct {
		plain
		Limit int `json:"-"`
	}
	inner struct {
		Names []string `json:",omitempty"`
		names []string
	}
	nested struct {
		plain
		In inner
	}
	embedding struct {
		plain
		inner
	}
	timed struct {
		plain
		At time.Time
	}
	silent struct {
		plain
		Limit int
	}
	channel struct {
		plain
		C chan int
	}
	anyNumber struct {
		plain
		Limit any
	}
	unreadable struct {
		plain
		R interface{ Read() }
	}
)

func (*silent) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

type reader struct{}

func (reader) Read() {}

func TestEncode(t *testing.T) {
	want := &configured{Limit: 7, Names: []string{"a"}}
	encoded, err := agent.Encode(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := agent.Decode(reflect.TypeOf(want), encoded)
	if err != nil || !reflect.DeepEqual(got, agent.Agent(want)) {
		t.Errorf("got %+v and %v, want %+v", got, err, want)
	}
}

func TestEncodeRefusesWhatWouldBeLost(t *testing.T) {
	for want, a := range map[string]agent.Agent{
		"*agent_test.hidden loses the field limit in it: configure the agent by exported fields": &hidden{limit: 7},
		"*agent_test.omitted loses the field Limit in":                                           &omitted{Limit: 7},
		"*agent_test.anyNumber loses the field Limit in":                                         &anyNumber{Limit: 7},
		"loses the field In.Names in":                                                            &nested{In: inner{Names: []string{}}},
		"loses the field inner.names in":                                                         &embedding{inner: inner{names: []string{"a"}}},
		"loses the field At in":                                                                  &timed{At: time.Now()},
		"*agent_test.silent loses something in":                                                  &silent{Limit: 7},
		"the agent travels to the workers as JSON, and cannot be encoded":                        &channel{C: make(chan int)},
		"the agent travels to the workers as JSON, and cannot be decoded":                        &unreadable{R: reader{}},
	} {
		if _, err := agent.Encode(a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%T: got %v, want %s", a, err, want)
		}
	}
}

func TestDecodeOfNoAgent(t *testing.T) {
	if _, err := agent.Decode(reflect.TypeFor[*strings.Builder](), []byte("{}")); err == nil || !strings.Contains(err.Error(), "is not an agent") {
		t.Errorf("got %v", err)
	}
}
