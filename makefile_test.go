package beamagents_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// make test also runs without the race detector each test that does less under it.
func TestMakefileRunsTestsWhole(t *testing.T) {
	makefile := readText(t, "Makefile")
	variable := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + ` := (.*)$`).FindStringSubmatch(makefile)
		if found == nil {
			t.Fatalf("the Makefile has no %s", name)
		}
		return strings.ReplaceAll(found[1], "$$", "$")
	}
	whole := regexp.MustCompile(variable("WHOLE"))
	packages := strings.Fields(variable("WHOLE_PACKAGES"))
	used := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+module+`/internal/racedetector"` }) {
			return nil
		}
		dir := "./" + filepath.ToSlash(filepath.Dir(path))
		used[dir] = true
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Enabled" {
					if id, ok := s.X.(*ast.Ident); ok && id.Name == "racedetector" && (!whole.MatchString(f.Name.Name) || !slices.Contains(packages, dir)) {
						t.Errorf("%s: %s uses racedetector.Enabled: add it to WHOLE, and %s to WHOLE_PACKAGES, in the Makefile", path, f.Name.Name, dir)
					}
				}
				return true
			})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range packages {
		if !used[dir] {
			t.Errorf("WHOLE_PACKAGES has %s, which uses no racedetector.Enabled", dir)
		}
	}
}
