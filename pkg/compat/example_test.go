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
		fmt.Println(compat.AgentsFlink, f.On(compat.AgentsFlink).Text())
		fmt.Println(f.Avoid)
	}
	// Output:
	// unsafe state_renamed Agent memory notes
	// agents-flink loses state silently (run)
	// keep the id
}

func ExampleLint() {
	f, err := compat.Read(strings.NewReader(`{"format":1,"transforms":[
		{"name":"Count","kind":"beam:transform:pardo:v1","state":[{"id":"sum","kind":"combining","value":{"urn":"beam:coder:varint:v1"}}]}]}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, problem := range compat.Lint(f) {
		fmt.Println(problem.Severity, problem.Kind, problem.Transform)
		fmt.Println(problem.Summary)
		fmt.Println(problem.Avoid)
	}
	// Output:
	// unsafe combining_state Count
	// a cell is a Combining: of several calls of Add in one element, on a key without state, only the last one is stored
	// use a value cell: read it, add to it, and write it once
}
