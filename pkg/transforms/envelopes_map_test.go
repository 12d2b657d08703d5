package transforms

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func topLevel(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) { return env, nil }

type withMethod struct{}

func (withMethod) Map(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) {
	return env, nil
}

func generic[T any](_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) {
	return env, nil
}

var assigned = func(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) { return env, nil }

// symbols stands in for the symbol table of a worker's binary.
type symbols struct{ found bool }

func (s symbols) Sym2Addr(name string) (uintptr, error) {
	if s.found {
		return 1, nil
	}
	return 0, errors.New(name + " not found")
}

func TestCheckFunction(t *testing.T) {
	old := runtime.Resolver
	defer func() { runtime.Resolver = old }()
	runtime.Resolver = symbols{found: false}

	captured := "x"
	for name, tc := range map[string]struct {
		fn   func(context.Context, *pb.AgentEnvelope) (*pb.AgentEnvelope, error)
		want string
	}{
		"nil": {nil, "is nil"},
		"closure": {
			func(_ context.Context, env *pb.AgentEnvelope) (*pb.AgentEnvelope, error) {
				env.EntityKey = []byte(captured)
				return env, nil
			}, "declared at package level",
		},
		"function literal":    {assigned, "declared at package level"},
		"method value":        {withMethod{}.Map, "declared at package level"},
		"generic":             {generic[int], "declared at package level"},
		"not in the binary":   {topLevel, "beam.RegisterFunction"},
		"goes to the message": {topLevel, "transforms.topLevel"},
	} {
		err := checkFunction(tc.fn)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want something about %q", name, err, tc.want)
		}
	}
	runtime.Resolver = symbols{found: true}
	if err := checkFunction(topLevel); err != nil {
		t.Errorf("in the symbol table: %v", err)
	}
}
