package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
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
		return nil, fmt.Errorf("the agent %T loses %s in its JSON form, in which it travels to the workers: configure it by exported fields "+
			"that come back from JSON as they were, and open clients and the like in its method Setup", a, lost(reflect.ValueOf(a).Elem(), reflect.ValueOf(again).Elem()))
	}
	return encoded, nil
}

// lost names the first field in which a struct differs from what came back from its JSON
// form. It shows no value, which may be a secret.
func lost(sent, back reflect.Value) string {
	marshals := sent.Addr().Type().Implements(reflect.TypeFor[json.Marshaler]()) // fields mean nothing then
	for i := range sent.NumField() {
		f, was, is := sent.Type().Field(i), sent.Field(i), back.Field(i)
		switch {
		case marshals:
		case f.IsExported() && reflect.DeepEqual(was.Interface(), is.Interface()):
		case f.Type.Kind() == reflect.Struct && (f.IsExported() || f.Anonymous):
			if inner := lost(was, is); inner != "something" {
				return "the field " + f.Name + "." + strings.TrimPrefix(inner, "the field ")
			}
			if f.IsExported() {
				return "the field " + f.Name
			}
		case f.IsExported() || !was.IsZero():
			return "the field " + f.Name
		}
	}
	return "something"
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
