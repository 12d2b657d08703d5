package state

import (
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/migrate"
	pb "github.com/beamagents/beamagents-go/proto/beam_agents/v1"
)

// Continuation is the cell of a suspended activation. It is for your own DoFns that suspend;
// RunAgent keeps its continuation in [Control]. Its id is "continuation".
type Continuation struct {
	continuationCell
	opened[*Handle[*pb.Continuation]]
}

type continuationCell struct{ valueOf[*pb.Continuation] }

// StateKey returns the id of the cell.
func (continuationCell) StateKey() string { return continuationID }

// Open reads the continuation. Fail the bundle if it returns an error.
func (c *Continuation) Open(sp beamstate.Provider) (*Handle[*pb.Continuation], error) {
	return openMessage(&c.opened, sp, continuationID, migrate.Stored(), nil)
}

func (c *Continuation) open(sp beamstate.Provider, _ int64) (func() error, error) {
	return clearer(c.Open(sp))
}
