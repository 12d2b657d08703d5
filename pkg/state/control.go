package state

import (
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/migrate"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// Control is the cell of what the runtime knows of a key, a KeyControl. Its id is
// "control". The continuation in it has a stamp of its own: a KeyControl is migrated
// without it, and one that holds a continuation of a newer version is refused as a
// whole, since it could be neither used nor replaced.
type Control struct {
	controlCell
	opened[*Handle[*runtimepb.KeyControl]]
}

type controlCell struct{ valueOf[*runtimepb.KeyControl] }

// StateKey is the id of the cell.
func (controlCell) StateKey() string { return controlID }

// Open reads the control. An error must fail the bundle.
func (c *Control) Open(sp beamstate.Provider) (*Handle[*runtimepb.KeyControl], error) {
	return openMessage(&c.opened, sp, controlID, migrate.Stored(), func(m *runtimepb.KeyControl) error {
		if m.GetContinuation() == nil {
			return nil
		}
		return migrate.Stored().Check(m.GetContinuation())
	})
}

func (c *Control) open(sp beamstate.Provider, _ int64) (func() error, error) {
	return clearer(c.Open(sp))
}
