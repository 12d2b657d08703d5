package flink

import (
	"strings"

	"github.com/beamagents/beamagents-go/pkg/compat"
	"github.com/beamagents/beamagents-go/pkg/compat/graph"
)

func init() {
	graph.RegisterPlatform(Name, func() (compat.Platform, error) {
		o, err := fromFlags()
		if err != nil {
			return compat.Platform{}, err
		}
		return o.Platform(), nil
	})
}

// Platform returns the options from which Flink makes the addresses of state. They are part of
// the fingerprints of pkg/compat, which show before an update what state would not be found.
func (o Options) Platform() compat.Platform {
	p := compat.Platform{
		Environment: urnOf[strings.ToUpper(o.Environment)], Parallelism: max(o.Parallelism, 0), MaxParallelism: o.MaxParallelism, Chaining: compat.Chaining(o.Chaining),
	}
	if p.MaxParallelism == 0 {
		p.MaxParallelism = DefaultMaxParallelism
	}
	return p
}
