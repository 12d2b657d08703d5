package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

type unwritable struct{}

var errUnwritable = errors.New("no space left on the disk")

func (unwritable) Write([]byte) (int, error) { return 0, errUnwritable }

// Output that cannot be written is reported once and fails the command, even if the data is bad,
// too.
func TestOutputCannotBeWritten(t *testing.T) {
	ring := keys(t, "k1", "one")
	const event, bad = `{"version":1,"type":"error","payload":{"message":"no"}}` + "\n", `{"version":2}` + "\n"
	activation := []string{"--key-hex", "6b", "--seq", "0"}
	sign := []string{"intent", "sign", "--keyring", ring, "--key-id", "k1", "--delimited"}
	verify := []string{"intent", "verify", "--keyring", ring, "--delimited"}
	for name, tc := range map[string]struct {
		stdin string
		args  []string
		also  string // what stderr holds besides
	}{
		"decode":                    {"\x18\x07", []string{"decode", "--type", "ToolIntent"}, ""},
		"decode, then bad":          {"\x02\x18\x07\x01\x18", []string{"decode", "--type", "ToolIntent", "--delimited"}, "ToolIntent.seq is cut short"},
		"decode, bad and keep on":   {"\x01\x18\x02\x18\x07", []string{"decode", "--type", "ToolIntent", "--delimited", "--keep-going"}, "message 1"},
		"decode, then bad, keep on": {"\x02\x18\x07\x01\x18", []string{"decode", "--type", "ToolIntent", "--delimited", "--keep-going"}, ""},
		"encode":                    {`{"seq":7}`, []string{"encode", "--type", "ToolIntent"}, ""},
		"encode, bad and keep on":   {"{\n{\"seq\":7}\n", []string{"encode", "--type", "ToolIntent", "--delimited", "--keep-going"}, "line 1"},
		"types":                     {"", []string{"types"}, ""},
		"types of one":              {"", []string{"types", "ToolIntent"}, ""},
		"deadletter show":           {"\x12\x01r", []string{"deadletter", "show"}, ""},
		"deadletter show, keep on":  {"\x00\x03\x12\x01r", []string{"deadletter", "show", "--delimited", "--keep-going"}, "message 1"},
		"snapshot show":             {"\x18\x07", []string{"snapshot", "show"}, ""},
		"snapshot show, keep on":    {"\x01\x18\x02\x18\x07", []string{"snapshot", "show", "--delimited", "--keep-going"}, "message 1"},
		"trace tree":                {"\x02\x28\x07", []string{"trace", "tree"}, ""},
		"trace tree, much":          {strings.Repeat("\x02\x28\x07", 10000), []string{"trace", "tree", "--output", "json"}, ""},
		"trace tree, keep on":       {"\x01\x28\x02\x28\x07", []string{"trace", "tree", "--keep-going"}, "message 1"},
		"events project":            {event, []string{"events", "project"}, ""},
		"events project, refused":   {bad + event, []string{"events", "project"}, ""},
		"events check, refused":     {bad + event, []string{"events", "check"}, ""},
		"events types":              {"", []string{"events", "types"}, ""},
		"intent id":                 {"", append([]string{"intent", "id", "--step", "0"}, activation...), ""},
		"intent trace-id":           {"", append([]string{"intent", "trace-id"}, activation...), ""},
		"intent span-id":            {"", append([]string{"intent", "span-id", "--role", "timer", "--index", "0"}, activation...), ""},
		"intent cache-key":          {`{"model":"m","messages":[]}`, append([]string{"intent", "cache-key"}, activation...), ""},
		"intent canonical":          {"[]", []string{"intent", "canonical"}, ""},
		"intent sign":               {"\x09" + staged, sign, ""},
		"intent sign, much":         {strings.Repeat("\x09"+staged, 10000), sign, ""},
		"intent sign, then bad":     {"\x09" + staged + "\x01\x18", sign, "ToolIntent.seq is cut short"},
		"intent verify":             {"\x02\x18\x07", append(verify, "--mode=off"), ""},
		"intent verify, refused":    {"\x02\x18\x07", verify, ""},
		"intent verify, much":       {strings.Repeat("\x02\x18\x07", 10000), verify, ""},
		"intent verify, then bad":   {"\x02\x18\x07\x01\x18", verify, "ToolIntent.seq is cut short"},
		"version":                   {"", []string{"version"}, ""},
		"help":                      {"", []string{"--help"}, ""},
		"help of a command":         {"", []string{"help", "decode"}, ""},
		"help of a bare call":       {"", nil, ""},
		"completion bash":           {"", []string{"completion", "bash"}, ""},
		"completion zsh":            {"", []string{"completion", "zsh"}, ""},
		"completion fish":           {"", []string{"completion", "fish"}, ""},
		"completion powershell":     {"", []string{"completion", "powershell"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stderr bytes.Buffer
			status := run(tc.args, strings.NewReader(tc.stdin), unwritable{}, &stderr)
			if status == 0 || tc.also == "" && status != 2 || strings.Count(stderr.String(), errUnwritable.Error()) != 1 || !strings.Contains(stderr.String(), tc.also) || strings.Contains(stderr.String(), "<nil>") {
				t.Errorf("status %d, %q; want a status and one report, and %q", status, stderr.String(), tc.also)
			}
		})
	}
}
