package graph_test

import (
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/spf13/cobra"

	"github.com/beamagents/beamagents-go/pkg/compat/graph"
)

// parsers are the ways in which programs read their arguments, each with a flag --other
// that takes a value. One that returns an error does not get to its job.
var parsers = map[string]func() error{
	"flag": func() error {
		flag.String("other", "", "")
		flag.Parse()
		return nil
	},
	// prog run --other x: each command has flags of its own, and takes in those of the
	// packages that it links.
	"flag sets": func() error {
		args := os.Args[1:]
		if len(args) > 0 && args[0] == "run" {
			args = args[1:]
		}
		flags := flag.NewFlagSet("run", flag.ContinueOnError)
		flags.String("other", "", "")
		flag.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
		return flags.Parse(args)
	},
	"flag sets, errors lost": func() error {
		flags := flag.NewFlagSet("run", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		flags.String("other", "", "")
		flag.VisitAll(func(f *flag.Flag) { flags.Var(f.Value, f.Name, f.Usage) })
		_ = flags.Parse(os.Args[1:]) // which is the point
		return nil
	},
	// The flags of a cobra command are a flag set of pflag, which so needs no import.
	"pflag": func() error {
		flags := new(cobra.Command).Flags()
		flags.String("other", "", "")
		flags.AddGoFlagSet(flag.CommandLine)
		return flags.Parse(os.Args[1:])
	},
	"pflag, unknown flags pass": func() error {
		flags := new(cobra.Command).Flags()
		flags.String("other", "", "")
		flags.ParseErrorsAllowlist.UnknownFlags = true
		return flags.Parse(os.Args[1:])
	},
	"pflag, not told": func() error {
		flags := new(cobra.Command).Flags()
		flags.String("other", "", "")
		return flags.Parse(os.Args[1:])
	},
	"cobra":           func() error { return cobraProgram(true) },
	"cobra, not told": func() error { return cobraProgram(false) },
	// The parser has a flag of this name itself, and no part of package flag: kong.
	"of its own": func() error {
		for i := 1; i < len(os.Args) && os.Args[i] != "--"; i++ {
			name, _, hasValue := strings.Cut(os.Args[i], "=")
			switch {
			case name == "--other" || name == "--fingerprint":
				if !hasValue {
					i++
				}
				if i >= len(os.Args) {
					return errors.New("a flag without a value")
				}
			case strings.HasPrefix(name, "-"):
				return errors.New("an unknown flag")
			}
		}
		return nil
	},
	"none": func() error { return nil },
}

// cobraProgram is prog [run], with the flags of other packages if it is told of them.
func cobraProgram(told bool) error {
	ran := false
	job := func(*cobra.Command, []string) error { ran = true; return nil }
	root := &cobra.Command{Use: "prog", SilenceErrors: true, Args: cobra.ArbitraryArgs, RunE: job}
	run := &cobra.Command{Use: "run", Args: cobra.ArbitraryArgs, RunE: job}
	root.AddCommand(run)
	root.PersistentFlags().String("other", "", "")
	if told {
		root.PersistentFlags().AddGoFlagSet(flag.CommandLine)
	}
	if err := root.Execute(); err != nil {
		return err
	}
	if !ran {
		return errors.New("only help was asked for")
	}
	return nil
}

// parserMain is a program with such a parser. Its job says so on standard output.
func parserMain(parse func() error) {
	if err := parse(); err != nil {
		os.Exit(3)
	}
	beam.Init()
	p, s := beam.NewPipelineWithRoot()
	beam.Impulse(s)
	graph.WriteIfAsked(p)
	_, _ = os.Stdout.WriteString("the job runs")
	os.Exit(0)
}

// However the flag is written, and whatever reads the arguments: a program that was asked
// for its fingerprint does not run its job, and where it can know the file, writes it.
func TestFlagNeverRunsTheJob(t *testing.T) {
	for parser := range parsers {
		t.Run(parser, func(t *testing.T) {
			call := func(args ...string) (stdout string, written bool, status int) {
				t.Helper()
				dir := t.TempDir()
				cmd := exec.Command(os.Args[0], args...)
				cmd.Dir, cmd.Env = dir, append(os.Environ(), "GRAPH_TEST_PARSER="+parser)
				out, err := cmd.Output()
				if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
					t.Fatal(err)
				}
				entries, err := os.ReadDir(dir)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range entries {
					if b, err := os.ReadFile(filepath.Join(dir, e.Name())); e.Name() != "f.json" || err != nil || !strings.Contains(string(b), `"Impulse"`) {
						t.Errorf("%q: wrote %s: %q, %v", args, e.Name(), b, err)
					}
				}
				return string(out), len(entries) > 0, cmd.ProcessState.ExitCode()
			}

			for _, args := range [][]string{
				{"--fingerprint", "f.json"},
				{"-fingerprint", "f.json"},
				{"run", "--fingerprint=f.json"},
				{"run", "--other", "x", "--fingerprint", "f.json"},
				{"--other", "x", "--fingerprint", "f.json", "--", "more"},
				{"run", "more", "--fingerprint", "f.json"},
			} {
				stdout, written, status := call(args...)
				// These parsers refuse what they do not know: the job does not run.
				refuses := strings.HasSuffix(parser, "not told") ||
					// pflag and cobra, and kong as well, read -fingerprint as -f -i -n ...
					strings.HasPrefix(args[0], "-f") && (parser == "pflag" || parser == "cobra" || parser == "of its own")
				if refuses {
					if written || status == 0 || stdout != "" {
						t.Errorf("%q: status %d, written: %v, %q; want a refusal", args, status, written, stdout)
					}
				} else if !written || status != 0 || stdout != "" {
					t.Errorf("%q: status %d, written: %v, %q; want the fingerprint in f.json", args, status, written, stdout)
				}
			}
			for _, args := range [][]string{
				{"--fingerprint", ""},
				{"--fingerprint"},
				{"run", "--fingerprint="},
				{"run", "--fingerprint"},
				{"--fingerprint", "--other", "x"},
				{"--fingerprint", "--", "f.json"},
				{"run", "--fingerprint=--other"},
			} {
				if stdout, written, status := call(args...); written || status == 0 || stdout != "" {
					t.Errorf("%q: status %d, written: %v, %q; want a refusal", args, status, written, stdout)
				}
			}
			for _, args := range [][]string{
				nil,
				{"run"},
				{"--", "--fingerprint", "f.json"},
				{"--other", "x", "run", "--", "--fingerprint="},
				{"fingerprint", "f.json"},
			} {
				if stdout, written, status := call(args...); written || status != 0 || stdout != "the job runs" {
					t.Errorf("%q: status %d, written: %v, %q; want the job", args, status, written, stdout)
				}
			}
		})
	}
}
