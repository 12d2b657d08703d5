package compat_test

import (
	"fmt"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/compat"
)

func ExampleCheck() {
	const running = `{"format":1,"transforms":[
		{"name":"Agent","kind":"beam:transform:pardo:v1","state":[{"id":"memory","kind":"value","value":{"urn":"beam:coder:bytes:v1"}}]}]}`
	old, err := compat.Read(strings.NewReader(running))
	if err != nil {
		fmt.Println(err)
		return
	}
	now, err := compat.Read(strings.NewReader(strings.Replace(running, `"memory"`, `"notes"`, 1)))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range compat.Check(old, now) {
		fmt.Println(f.Severity, f.Kind, f.Transform, f.Old, f.New)
		fmt.Println("Flink", f.Flink.Text())
		fmt.Println(f.Avoid)
	}
	// Output:
	// unsafe state_renamed Agent memory notes
	// Flink orphans state silently (inferred)
	// keep the id
}
