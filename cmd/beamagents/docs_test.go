package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// The test binary is also the program, if it is called by the name of the program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "beamagents" {
		main()
	}
	os.Exit(m.Run())
}

// command is a line behind "$ ", with lines behind "> " that continue it, and what the
// page says that it prints.
type command struct{ text, want string }

// consoleCommands returns the commands of a text's ```console blocks, in order.
func consoleCommands(text string) []command {
	var all []command
	inside := false
	for line := range strings.Lines(text) {
		switch marker := strings.TrimSpace(line); {
		case strings.HasPrefix(marker, "```"):
			inside = !inside && marker == "```console"
		case !inside:
		case strings.HasPrefix(line, "$ "):
			all = append(all, command{text: line[2:]})
		case len(all) == 0: // an output without a command, which is not compared
		case strings.HasPrefix(line, "> ") && all[len(all)-1].want == "":
			all[len(all)-1].text += line[2:]
		default:
			all[len(all)-1].want += line
		}
	}
	return all
}

func TestConsoleCommands(t *testing.T) {
	got := consoleCommands("a\n```go\n$ no\n```\n```console\n$ one \\\n> two\nout\n> out\n$ three\n```\n$ no\n```\n$ no\n```\n```console\n$ four\n\n```\n")
	want := []command{{"one \\\ntwo\n", "out\n> out\n"}, {"three\n", ""}, {"four\n", "\n"}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(command{})); diff != "" {
		t.Error(diff)
	}
}

// Every example of docs/*.md prints what the page says. The examples of a page run in one shell, in
// a folder of their own in which golden and examples can be read.
func TestDocsExamples(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages: %v", err)
	}
	for _, page := range pages {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			runConsole(t, consoleCommands(string(text)))
		})
	}
}

// The examples in help texts that begin with "$ " print what follows.
func TestHelpExamples(t *testing.T) {
	var all []command
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		var lines []string
		for line := range strings.Lines(cmd.Example) {
			lines = append(lines, strings.TrimPrefix(line, "  "))
		}
		if text := strings.Join(lines, ""); strings.Contains(text, "$ ") {
			all = append(all, consoleCommands("```console\n"+strings.TrimSuffix(text, "\n")+"\n```\n")...)
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	if len(all) < 5 {
		t.Errorf("only %d examples", len(all))
	}
	runConsole(t, all)
}

func runConsole(t *testing.T, commands []command) {
	t.Helper()
	if len(commands) == 0 {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin, dir := t.TempDir(), t.TempDir()
	links := map[string]string{filepath.Join(bin, "beamagents"): self}
	for _, name := range []string{"golden", "examples"} {
		if links[filepath.Join(dir, name)], err = filepath.Abs(filepath.Join("../..", name)); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range links {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	// An empty line ends the output of a command. $? is kept for the next command.
	const end = "--end of output--"
	var script strings.Builder
	for _, c := range commands {
		script.WriteString(strings.TrimSuffix(c.text, "\n") + "\nstatus=$?; echo '" + end + "'; (exit $status)\n")
	}
	sh := exec.Command("sh", "-c", script.String())
	sh.Dir = dir
	sh.Env = append(os.Environ(), "TMPDIR="+t.TempDir(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := sh.CombinedOutput()
	var exited *exec.ExitError // the status of the last example
	if err != nil && !errors.As(err, &exited) {
		t.Fatal(err)
	}
	outputs := strings.Split(string(out), end+"\n")
	if len(outputs) != len(commands)+1 {
		t.Fatalf("%d outputs of %d commands:\n%s", len(outputs)-1, len(commands), out)
	}
	for i, c := range commands {
		got := outputs[i]
		if !strings.HasSuffix(got, "\n") && got != "" {
			got += "\n" // a page cannot show that the last line has no end
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("$ %s(-page +printed):\n%s", c.text, diff)
		}
	}
}
