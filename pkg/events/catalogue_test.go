package events

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// goName is a wire name in Go's spelling.
func goName(wire string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(wire, "_") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// The constants, the structs with an event type, and the catalogue are the
// same 50, whichever of them one starts from.
func TestCatalogueIsComplete(t *testing.T) {
	constants := map[string]string{} // Go name of the struct: wire name
	structs := map[string]string{}   // name of the struct: constant returned
	kinds := map[string]string{}     // of tool errors, the same
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				name, isEvent := strings.CutPrefix(n.Names[0].Name, "Event")
				if lit, ok := first(n.Values).(*ast.BasicLit); ok && isEvent && lit.Kind == token.STRING {
					constants[name], _ = strconv.Unquote(lit.Value)
				}
			case *ast.FuncDecl:
				if n.Recv == nil || n.Body == nil || len(n.Body.List) != 1 {
					break
				}
				receiver, _ := n.Recv.List[0].Type.(*ast.Ident)
				ret, ok := n.Body.List[0].(*ast.ReturnStmt)
				if !ok || receiver == nil {
					break
				}
				switch result := first(ret.Results).(type) {
				case *ast.Ident:
					if n.Name.Name == "EventType" {
						structs[receiver.Name] = result.Name
					}
				case *ast.BasicLit:
					if n.Name.Name == "Kind" {
						kinds[receiver.Name], _ = strconv.Unquote(result.Value)
					}
				}
			}
			return true
		})
	}
	if len(constants) != 50 || len(structs) != 50 || len(catalogue.tags) != 50 {
		t.Errorf("%d constants, %d structs, %d in the catalogue, want 50 of each", len(constants), len(structs), len(catalogue.tags))
	}
	for i, wire := range catalogue.tags {
		name := catalogue.types[i].Name()
		switch {
		case name != goName(wire):
			t.Errorf("%s is the struct %s", wire, name)
		case constants[name] != wire:
			t.Errorf("the constant Event%s is %q, want %q", name, constants[name], wire)
		case structs[name] != "Event"+name:
			t.Errorf("%s.EventType returns %s", name, structs[name])
		}
	}
	if len(kinds) != 11 || len(toolErrorKinds) != 11 {
		t.Errorf("%d kinds of tool errors, %d in the list, want 11", len(kinds), len(toolErrorKinds))
	}
	for _, kind := range toolErrorKinds {
		if name := "ToolError" + goName(kind.Kind()); kinds[name] != kind.Kind() {
			t.Errorf("%s.Kind returns %q, want %q", name, kinds[name], kind.Kind())
		}
	}
}

func first(list []ast.Expr) ast.Expr {
	if len(list) == 0 {
		return nil
	}
	return list[0]
}

func TestShapesFitTheDecoder(t *testing.T) {
	var check func(o *object)
	check = func(o *object) {
		if len(o.fields) > 64 {
			t.Errorf("%s has %d fields; the decoder notes what it has seen in 64 bits", o.name, len(o.fields))
		}
		names := map[string]bool{}
		for _, f := range o.fields {
			if f.name == "" || names[f.name] || f.name == "type" {
				t.Errorf("%s has a member %q that is empty, twice there, or the tag", o.name, f.name)
			}
			names[f.name] = true
			sh := f.shape
			for sh.kind == listShape {
				sh = sh.elem
			}
			if sh.kind == objectShape {
				check(sh.object)
			}
			if sh.kind == unionShape {
				for _, m := range sh.union.members {
					check(m)
				}
			}
		}
	}
	for _, o := range catalogue.members {
		check(o)
	}
}

func TestProjectionsAreOfTheCatalogue(t *testing.T) {
	full := 0
	for name, rule := range projections {
		i, ok := catalogue.byTag[name]
		if !ok || len(rule.sources) > maxSources {
			t.Errorf("%s: known %t, %d sources", name, ok, len(rule.sources))
			continue
		}
		if rule.noData {
			full++
		}
		for _, s := range rule.sources {
			if _, ok := catalogue.members[i].byName[s.name]; !ok {
				t.Errorf("%s has no member %s", name, s.name)
			}
		}
	}
	if full != 11 {
		t.Errorf("%d types without data, want 11", full)
	}
}
