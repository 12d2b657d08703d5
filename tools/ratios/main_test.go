package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	const in = `goos: linux
BenchmarkCoder/message=A/size=1KiB/op=encode/by=ours-2   	100	 50 ns/op	 8 B/op	 1 allocs/op
BenchmarkCoder/message=A/size=1KiB/op=encode/by=ours-2   	100	 900 ns/op	 8 B/op	 1 allocs/op
BenchmarkCoder/message=A/size=1KiB/op=encode/by=ours-2   	100	 40.0 ns/op
BenchmarkCoder/message=A/size=1KiB/op=encode/by=beam-2   	100	 100 ns/op
BenchmarkCoder/message=A/size=1KiB/op=encode/by=copy   	100	 10 ns/op
BenchmarkPrism/transform=T/by=identity-2   	1	 90 ns/op	 3 elements/s
BenchmarkPrism/transform=T/by=ours-2   	1	 100 ns/op	 3 elements/s
BenchmarkPrism/transform=Memory_1KiB/by=value-2   	1	 95 ns/op	 3 elements/s
BenchmarkPrism/transform=Memory_1KiB/by=ours-2   	1	 100 ns/op	 3 elements/s
BenchmarkPrismAgent/transform=Agent_call/by=one-2   	1	300 ns/op	 3 elements/s
BenchmarkPrismAgent/transform=Agent_call/by=ours-2   	1	100 ns/op	 3 elements/s
BenchmarkAgent/do=nothing/provider=kit/by=rules-2   	1	50 ns/op	 8 B/op
BenchmarkAgent/do=nothing/provider=kit/by=ours-2   	1	100 ns/op	 8 B/op
BenchmarkAgent/do=commit_1KiB/provider=sdk/by=cell-2   	1	80 ns/op	 8 B/op
BenchmarkAgent/do=commit_1KiB/provider=sdk/by=ours-2   	1	100 ns/op	 8 B/op
BenchmarkOther-2   	1	 100 ns/op
`
	const want = `| what | 1KiB |
|---|---|
| A encode | **0.50** - 0.20 |
| A decode | **-** - - |
| T | **0.90** |
| Memory_1KiB | **0.95** |
| Agent_call | **3.00** |
| Agent_nothing kit | **0.50** |
| Agent_commit_1KiB sdk | **0.80** |
`
	var out bytes.Buffer
	if err := run(strings.NewReader(in), &out); err != nil || out.String() != want {
		t.Errorf("run = %v, printed\n%s", err, &out)
	}
	out.Reset()
	const cells = "BenchmarkPrism/transform=T/by=identity 1 95 ns/op\nBenchmarkPrism/transform=T/by=ours 1 100 ns/op\n"
	if err := run(strings.NewReader(cells), &out); err != nil || out.String() != "| what | ratio |\n|---|---|\n| T | **0.95** |\n" {
		t.Errorf("without coders: %v, printed\n%s", err, &out)
	}
	if err := run(strings.NewReader("PASS\n"), &out); err == nil {
		t.Error("no benchmarks are no error")
	}
}
