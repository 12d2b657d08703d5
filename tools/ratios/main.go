// Ratios reads the output of `go test -bench` of the coders, the transforms and the cells from
// standard input and prints a table of ratios: medians over all runs in it.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "ratios:", err)
		os.Exit(1)
	}
}

var (
	coderLine = regexp.MustCompile(`^BenchmarkCoder/message=(\S+)/size=(\S+)/op=(\S+)/by=([a-z]+)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)
	prismLine = regexp.MustCompile(`^BenchmarkPrism(?:Agent)?/transform=(\S+)/by=([a-z_]+)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)
	agentLine = regexp.MustCompile(`^BenchmarkAgent/do=(\S+)/provider=(\S+)/by=([a-z_]+)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op`)
)

// times are the measured times by what was measured and by whom.
type times map[string]map[string][]float64

func (t times) add(what, by, ns string) error {
	v, err := strconv.ParseFloat(ns, 64)
	if err != nil {
		return err
	}
	if t[what] == nil {
		t[what] = map[string][]float64{}
	}
	t[what][by] = append(t[what][by], v)
	return nil
}

// ratio is the median of a over the median of b as text, "-" if one is missing.
func (t times) ratio(what, a, b string) string {
	x, y := t[what][a], t[what][b]
	if len(x) == 0 || len(y) == 0 {
		return "-"
	}
	return strconv.FormatFloat(median(x)/median(y), 'f', 2, 64)
}

// baseline is what something is compared with: the SDK's own value with the same bytes, an
// agent with one activation at a time, the rules of agents alone, a cell alone, or a ParDo
// that passes on its elements.
func baseline(by map[string][]float64) string {
	for _, name := range []string{"value", "one", "rules", "cell"} {
		if len(by[name]) > 0 {
			return name
		}
	}
	return "identity"
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v) / 2; len(v)%2 == 0 {
		return (v[n-1] + v[n]) / 2
	}
	return v[len(v)/2]
}

func run(in io.Reader, out io.Writer) error {
	t := times{}
	var messages, sizes, transforms []string
	once := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if m := coderLine.FindStringSubmatch(lines.Text()); m != nil {
			once(&messages, m[1])
			once(&sizes, m[2])
			if err := t.add(strings.Join(m[1:4], " "), m[4], m[5]); err != nil {
				return err
			}
		} else if m := prismLine.FindStringSubmatch(lines.Text()); m != nil {
			once(&transforms, m[1])
			if err := t.add(m[1], m[2], m[3]); err != nil {
				return err
			}
		} else if m := agentLine.FindStringSubmatch(lines.Text()); m != nil {
			what := "Agent_" + m[1] + " " + m[2]
			once(&transforms, what)
			if err := t.add(what, m[3], m[4]); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if len(t) == 0 {
		return fmt.Errorf("no benchmarks of coders or transforms in the input")
	}
	if len(sizes) == 0 {
		sizes = []string{"ratio"} // no coders were measured
	}
	fmt.Fprintf(out, "| what | %s |\n|---|%s\n", strings.Join(sizes, " | "), strings.Repeat("---|", len(sizes)))
	for _, op := range []string{"encode", "decode"} {
		for _, message := range messages {
			fmt.Fprintf(out, "| %s %s |", message, op)
			for _, size := range sizes {
				what := message + " " + size + " " + op
				fmt.Fprintf(out, " **%s** %s %s |", t.ratio(what, "ours", "beam"), t.ratio(what, "ours", "proto"), t.ratio(what, "copy", "ours"))
			}
			fmt.Fprintln(out)
		}
	}
	for _, transform := range transforms {
		fmt.Fprintf(out, "| %s |", transform)
		for i := range sizes {
			if i == 0 {
				fmt.Fprintf(out, " **%s** |", t.ratio(transform, baseline(t[transform]), "ours"))
			} else {
				fmt.Fprint(out, " |")
			}
		}
		fmt.Fprintln(out)
	}
	return nil
}
