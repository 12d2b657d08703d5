package agent

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// Encode returns the JSON in which an agent travels to the workers. It returns an error if a
// worker would decode another agent from it. It is for runtimes.
func Encode(a Agent) ([]byte, error) {
	encoded, err := json.Marshal(a)
	if err != nil {
		return nil, fmt.Errorf("the agent travels to the workers as JSON, and cannot be encoded: %w", err)
	}
	again, err := Decode(reflect.TypeOf(a), encoded)
	if err != nil {
		return nil, fmt.Errorf("the agent travels to the workers as JSON, and cannot be decoded: %w", err)
	}
	if !reflect.DeepEqual(a, again) {
		return nil, fmt.Errorf("the agent travels to the workers as JSON, and %T loses %s in it: configure the agent by exported fields "+
			"that JSON keeps, and open clients and the like in its method Setup", a, lost(reflect.ValueOf(a).Elem(), reflect.ValueOf(again).Elem()))
	}
	return encoded, nil
}

// lost names the first field in which a struct differs from its decoded JSON. It does not show
// values, because they may be secrets.
func lost(sent, back reflect.Value) string {
	marshals := sent.Addr().Type().Implements(reflect.TypeFor[json.Marshaler]()) // then the fields do not show what was lost
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

// Decode decodes an agent of type t, which [Check] accepts, from its JSON, as a worker does. It
// is for runtimes.
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
