package transforms_test

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/funcx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Beam looks DoFns and emitters up by the text of their types, and so can take those of
// a user's package of the same short name for ours: each has a name that only we have.
func TestNamesAreOurs(t *testing.T) {
	ours := reflect.TypeFor[pb.AgentEnvelope]().PkgPath()
	// foreign returns the first type in an emitter whose text other packages may have.
	foreign := func(emitter reflect.Type) (found reflect.Type) {
		if emitter.Name() != "" {
			if !strings.HasPrefix(emitter.Name(), "beamagents") {
				return emitter
			}
			return nil
		}
		for in := range emitter.Ins() {
			for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
				in = in.Elem()
			}
			if path := in.PkgPath(); path != "" && path != ours && !strings.HasPrefix(path, "github.com/apache/beam/") {
				return in
			}
		}
		return nil
	}

	p, s := beam.NewPipelineWithRoot()
	for _, name := range slices.Sorted(maps.Keys(everyTransform)) {
		everyTransform[name](s)
	}
	edges, _, err := p.Build()
	if err != nil {
		t.Fatal(err)
	}
	inPipeline := map[string]bool{}
	for _, edge := range edges {
		if edge.DoFn == nil || (*graph.Fn)(edge.DoFn).Recv == nil {
			continue
		}
		fn := reflect.TypeOf((*graph.Fn)(edge.DoFn).Recv).Elem()
		if !strings.HasSuffix(fn.PkgPath(), "/pkg/transforms") {
			continue
		}
		inPipeline[fn.Name()] = true
		if !strings.HasPrefix(fn.Name(), "beamagents") {
			t.Errorf("a package of a user may have a %v, too: call it beamagents...", fn)
		}
		process := edge.DoFn.ProcessElementFn()
		for _, i := range process.Params(funcx.FnEmit) {
			if found := foreign(process.Param[i].T); found != nil {
				t.Errorf("%v takes a %v, and a package of a user may have a %v, too: see emitters.go", fn, process.Param[i].T, found)
			}
		}
	}

	// What is registered and in no pipeline of everyTransform was not looked at.
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	registered := map[string]bool{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range regexp.MustCompile(`registerDoFn\(\(\*(\w+)\)`).FindAllSubmatch(b, -1) {
			registered[string(call[1])] = true
		}
	}
	if !maps.Equal(registered, inPipeline) {
		t.Errorf("registered are %q, in a pipeline are %q",
			slices.Sorted(maps.Keys(registered)), slices.Sorted(maps.Keys(inPipeline)))
	}
}
