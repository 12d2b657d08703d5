package beamagents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// The snippets of the page on testing agents are the files of one package, whose test
// passes.
func TestTestingAgentsPageSnippets(t *testing.T) {
	testSnippets(t, "docs/testing-agents.md", "refunds.go", "refunds_test.go")
}

// The page names every method that a test of an agent can call.
func TestTestingAgentsPageIsComplete(t *testing.T) {
	page := readText(t, "docs/testing-agents.md")
	seen := 0
	for _, file := range []string{"runtime.go", "value.go", "result.go", "everywhere.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), "pkg/agenttest/"+file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() || f.Name.Name == "String" || f.Name.Name == "NowMS" {
				continue
			}
			seen++
			if name := f.Name.Name; !strings.Contains(page, "."+name+"(") && !strings.Contains(page, "."+name+"[") && !strings.Contains(page, "`"+name+"`") {
				t.Errorf("docs/testing-agents.md does not name %s", name)
			}
		}
	}
	if seen < 15 {
		t.Errorf("found only %d methods", seen)
	}
}
