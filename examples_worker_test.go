package beamagents_test

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// Each example starts as a worker of a remote runner. The umask decides who may read the files that
// it writes.
func TestExamples(t *testing.T) {
	mains, err := filepath.Glob("examples/*/main.go")
	if err != nil || len(mains) < 3 {
		t.Fatalf("found only %q: %v", mains, err)
	}
	for _, main := range mains {
		dir := filepath.Dir(main)
		t.Run(filepath.Base(dir), func(t *testing.T) {
			program := filepath.Join(t.TempDir(), filepath.Base(dir)+".exe")
			// In its folder, since some are modules of their own.
			if out, err := exec.Command("go", "build", "-C", dir, "-o", program, ".").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			t.Run("worker", func(t *testing.T) { startsAsWorker(t, program) })
			t.Run("umask", func(t *testing.T) { keepsUmask(t, program, filepath.Join(dir, "sample", "sample.jsonl")) })
		})
	}
}

// startsAsWorker starts a program as Beam's container does, with a port to which it must connect.
// With LOOPBACK a program that cannot do that would not be found.
func startsAsWorker(t *testing.T, program string) {
	t.Helper()
	home, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer home.Close()
	called := make(chan error, 1)
	go func() {
		conn, err := home.Accept()
		if err == nil {
			err = conn.Close()
		}
		called <- err
	}()

	cmd := exec.Command(program, "--worker=true", "--id=worker-1", "--logging_endpoint="+home.Addr().String(),
		"--control_endpoint="+home.Addr().String(), "--semi_persist_dir="+t.TempDir())
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-called:
		if err != nil {
			t.Error(err)
		}
		_ = cmd.Process.Kill() // or it has ended by itself, since nobody answers
		<-ended
	case err := <-ended:
		t.Errorf("the worker ended without a call to its runner: %v\n%s", err, &output)
	case <-time.After(time.Minute):
		_ = cmd.Process.Kill()
		<-ended
		t.Errorf("the worker did not call its runner within a minute\n%s", &output)
	}
}

// keepsUmask runs a program with a umask that lets only the owner read its files.
func keepsUmask(t *testing.T, program, sample string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no umask")
	}
	out := filepath.Join(t.TempDir(), "out")
	for range 2 { // the second time its files are there
		cmd := exec.Command("sh", "-c", `umask 077; exec "$0" "$@"`, program, "--input", sample, "--out", out)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
	}
	files := 0
	err := filepath.WalkDir(out, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = fmt.Errorf("%s has mode %v under umask 077", path, info.Mode())
		}
		if !d.IsDir() {
			files++
		}
		return err
	})
	if err != nil || files == 0 {
		t.Errorf("%d files: %v", files, err)
	}
}

// initFault says why a program cannot be a worker. Before main calls beam.Init, it may only define
// and parse flags and set variables.
func initFault(source string) error {
	file, err := parser.ParseFile(token.NewFileSet(), "main.go", source, 0)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || f.Name.Name != "main" {
			continue
		}
		for _, statement := range f.Body.List {
			switch called := calledBy(statement); {
			case called == "beam.Init":
				return nil
			case strings.HasPrefix(called, "flag."):
			default:
				if _, ok := statement.(*ast.AssignStmt); !ok {
					return fmt.Errorf("main does something else (%s) before beam.Init", called)
				}
			}
		}
		return errors.New("main does not call beam.Init")
	}
	return errors.New("there is no main")
}

// calledBy is the function that a statement is a call of.
func calledBy(statement ast.Stmt) string {
	if expr, ok := statement.(*ast.ExprStmt); ok {
		if call, ok := expr.X.(*ast.CallExpr); ok {
			if fn, ok := call.Fun.(*ast.SelectorExpr); ok {
				if pkg, ok := fn.X.(*ast.Ident); ok {
					return pkg.Name + "." + fn.Sel.Name
				}
			}
		}
	}
	return "no call"
}

// A program that a reader copies from the docs runs remotely.
func TestProgramsInTheDocsCallInit(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		for _, snippet := range goSnippets(t, path) {
			if !strings.Contains(snippet, "package main\n") || !strings.Contains(snippet, "func main()") || !strings.Contains(snippet, "/pkg/beam\"") {
				continue
			}
			found++
			if err := initFault(snippet); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil || found == 0 {
		t.Errorf("found %d programs: %v", found, err)
	}
}

func TestProgramsWithoutInitAreFound(t *testing.T) {
	for body, fine := range map[string]bool{
		"beam.Init(); run()": true,
		"n := flag.Int(`n`, 1, ``); flag.Parse(); beam.Init(); use(*n)":                             true,
		"flag.StringVar(&input, `input`, ``, ``); log.LogLevel = `warn`; flag.Parse(); beam.Init()": true,
		"run()": false,
		"flag.Parse(); if input == `` { os.Exit(2) }; beam.Init()": false,
		"check(); beam.Init()": false,
	} {
		if err := initFault("package main\nfunc main() {\n" + body + "\n}"); (err == nil) != fine {
			t.Errorf("%s: %v", body, err)
		}
	}
	if initFault("package main") == nil {
		t.Error("a program without main")
	}
}
