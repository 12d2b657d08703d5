package beamagents_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// errorOutputs returns, for each function of pkg/transforms with a result struct, the
// name of the output that holds dead letters: Errors, or TooLarge.
func errorOutputs(t *testing.T) map[string]string {
	t.Helper()
	structs, results := map[string]string{}, map[string]string{}
	files, err := filepath.Glob("pkg/transforms/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					for _, f := range s.Fields.List {
						for _, name := range f.Names {
							if name.Name == "Errors" || name.Name == "TooLarge" && structs[n.Name.Name] == "" {
								structs[n.Name.Name] = name.Name
							}
						}
					}
				}
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.IsExported() && n.Type.Results.NumFields() == 1 {
					if id, ok := n.Type.Results.List[0].Type.(*ast.Ident); ok {
						results[n.Name.Name] = id.Name
					}
				}
			}
			return true
		})
	}
	outputs := map[string]string{}
	for function, result := range results {
		if structs[result] != "" {
			outputs[function] = structs[result]
		}
	}
	return outputs
}

// dropped lists the calls in a file whose dead letters are not read.
func dropped(fset *token.FileSet, file *ast.File, outputs map[string]string) []string {
	var found []string
	local := "transforms" // the name that the file gives the package
	for _, i := range file.Imports {
		if i.Name != nil && i.Path.Value == `"`+module+`/pkg/transforms"` {
			local = i.Name.Name
		}
	}
	// Variables are told apart by their declaration, not by their name: closures may
	// use one name for several.
	type output struct {
		variable *ast.Object //nolint:staticcheck // enough within one file, and needs no types
		name     string
	}
	for _, decl := range file.Decls {
		read := map[output]bool{}
		held := map[*ast.CallExpr]*ast.Ident{} // the variable that a call is assigned to
		direct := map[*ast.CallExpr]string{}   // the output that a call's result is asked for at once
		handedOn := map[*ast.CallExpr]bool{}   // returned to the caller
		ast.Inspect(decl, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				switch x := n.X.(type) {
				case *ast.Ident:
					read[output{x.Obj, n.Sel.Name}] = true
				case *ast.CallExpr:
					direct[x] = n.Sel.Name
				}
			case *ast.AssignStmt:
				for i, rhs := range n.Rhs {
					if call, ok := rhs.(*ast.CallExpr); ok && i < len(n.Lhs) {
						if id, ok := n.Lhs[i].(*ast.Ident); ok {
							held[call] = id
						}
					}
				}
			case *ast.ReturnStmt:
				for _, r := range n.Results {
					if call, ok := r.(*ast.CallExpr); ok {
						handedOn[call] = true
					}
				}
			}
			return true
		})
		ast.Inspect(decl, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); !ok || pkg.Name != local {
				return true
			}
			name, ok := outputs[sel.Sel.Name]
			v := held[call]
			kept := v != nil && v.Obj != nil && read[output{v.Obj, name}]
			if ok && !handedOn[call] && direct[call] != name && !kept {
				found = append(found, fmt.Sprintf("%s: %s of transforms.%s is dropped",
					fset.Position(call.Pos()), name, sel.Sel.Name))
			}
			return true
		})
	}
	return found
}

func TestNoExampleOrTestDropsErrors(t *testing.T) {
	outputs := errorOutputs(t)
	if outputs["ParseEnvelopes"] != "Errors" || outputs["EncodeErrors"] != "TooLarge" || outputs["KeyByEntity"] != "" {
		t.Fatalf("outputs of the transforms: %v", outputs)
	}
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !strings.HasSuffix(path, "_test.go") && (!strings.HasPrefix(path, "examples/") || !strings.HasSuffix(path, ".go")) {
			return nil
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, nil, 0)
		if err != nil {
			return err
		}
		seen++
		for _, d := range dropped(fset, file, outputs) {
			t.Error(d)
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Fatalf("read %d files: %v", seen, err)
	}
}

func TestDroppedErrorsAreFound(t *testing.T) {
	const head = "package p\nimport tr \"" + module + "/pkg/transforms\"\nfunc f() any {\n"
	outputs := map[string]string{"ParseEnvelopes": "Errors", "EncodeErrors": "TooLarge"}
	for body, want := range map[string]int{
		"parsed := transforms.ParseEnvelopes(s); use(parsed.Envelopes)":                       1,
		"use(transforms.ParseEnvelopes(s).Envelopes)":                                         1,
		"transforms.ParseEnvelopes(s)":                                                        1,
		"_ = transforms.ParseEnvelopes(s)":                                                    1,
		"encoded := transforms.EncodeErrors(s); use(encoded.Errors)":                          1,
		"a := transforms.ParseEnvelopes(s); b := transforms.ParseEnvelopes(s); use(a.Errors)": 1,
		"parsed := transforms.ParseEnvelopes(s); use(parsed.Errors)":                          0,
		"use(transforms.ParseEnvelopes(s).Errors)":                                            0,
		"encoded := transforms.EncodeErrors(s); func() { use(encoded.TooLarge) }()":           0,
		"return transforms.ParseEnvelopes(s)":                                                 0,
		"func() { p := transforms.ParseEnvelopes(s); use(p.Errors) }(); func() { p := transforms.ParseEnvelopes(s); use(p.Envelopes) }()": 1,
		"var p T; p = transforms.ParseEnvelopes(s); use(p.Errors)":                                                                        0,
		"keyed := transforms.KeyByEntity(s); use(keyed)":                                                                                  0,
		"other.ParseEnvelopes(s)": 0,
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "p.go", head+strings.ReplaceAll(body, "transforms.", "tr.")+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := dropped(fset, file, outputs); len(got) != want {
			t.Errorf("%s: found %q, want %d", body, got, want)
		}
	}
}
