package transforms

import (
	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

func init() {
	registerDoFn((*beamagentsKeyFn).ProcessElement, func(f *beamagentsKeyFn, a []any) []any {
		key, env := f.ProcessElement(a[0].(*pb.AgentEnvelope))
		return []any{key, env}
	})
}

// KeyByEntity keys a PCollection<*pb.AgentEnvelope> by entity_key. It returns a
// PCollection<KV<[]byte, *pb.AgentEnvelope>>. The empty key is a key like any other.
func KeyByEntity(s beam.Scope, col beam.PCollection) beam.PCollection {
	return beam.ParDo(s.Scope("KeyByEntity"), &beamagentsKeyFn{}, col)
}

type beamagentsKeyFn struct{}

func (*beamagentsKeyFn) ProcessElement(env *pb.AgentEnvelope) ([]byte, *pb.AgentEnvelope) {
	return env.GetEntityKey(), env
}
