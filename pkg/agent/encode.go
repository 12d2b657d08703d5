package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Encode returns the JSON form in which an agent travels to the workers. It fails if the
// agent that arrives there would not be the one that was given. It is for runtimes.
func Encode(a Agent) ([]byte, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("the agent has no JSON form, in which it travels to the workers: %w", err)
	}
	again, err := Decode(reflect.TypeOf(a), encoded)
	if err != nil {
		return nil, fmt.Errorf("the agent cannot be read from its JSON form, in which it travels to the workers: %w", err)
	}
	if !reflect.DeepEqual(a, again) {
		return nil, fmt.Errorf("the agent %T loses something in its JSON form, in which it travels to the workers: "+
			"configure it by exported fields, and open clients and the like in its method Setup", a)
	}
	return encoded, nil
}

// Decode returns a new agent of a type that [Check] accepts, as a worker makes it from its
// JSON form. It is for runtimes.
func Decode(t reflect.Type, encoded []byte) (Agent, error) {
	a, ok := reflect.TypeAssert[Agent](reflect.New(t.Elem()))
	if !ok {
		return nil, fmt.Errorf("the type %v is not an agent", t)
	}
	if err := json.Unmarshal(encoded, a); err != nil {
		return nil, err
	}
	return a, nil
}
