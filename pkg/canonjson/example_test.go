package canonjson_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
)

func ExampleMarshal() {
	text, err := canonjson.Marshal(map[string]any{
		"url":  "https://example.test?a=1&b=2",
		"body": json.RawMessage(`{ "n": 1e2, "id": 12345678901234567890 }`),
	})
	fmt.Println(string(text), err)
	// Output: {"body":{"id":12345678901234567890,"n":100.0},"url":"https://example.test?a=1&b=2"} <nil>
}

func ExampleCanonicalize() {
	text, err := canonjson.Canonicalize(nil, []byte(`{"b": 1.50, "a": "\u00e9"}`))
	fmt.Println(string(text), err)

	_, err = canonjson.Canonicalize(nil, []byte(`{"a": 1, "a": 2}`))
	var fault *canonjson.Error
	fmt.Println(errors.Is(err, canonjson.ErrDuplicate), errors.As(err, &fault) && fault.Offset == 9)
	// Output:
	// {"a":"é","b":1.5} <nil>
	// true true
}

func ExampleWrite() {
	sum := sha256.New()
	err := canonjson.Write(sum, map[string]any{
		"key": "6b", "messages": []string{"hello"}, "model": "m", "params": nil, "seq": 0, "tools": nil,
	})
	fmt.Printf("%x %v\n", sum.Sum(nil), err)
	// Output: 65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c <nil>
}
