package state

import (
	beamstate "github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"

	"github.com/beamagents/beamagents-go/pkg/migrate"
	runtimepb "github.com/beamagents/beamagents-go/proto/beam_agents/runtime/v1"
)

// Control is the cell of a KeyControl, which holds what the runtime knows of a key. Its id is
// "control". The continuation in a KeyControl has its own version: migrating the KeyControl
// leaves the continuation unchanged. Open refuses a KeyControl whose continuation is of a newer
// version, because this build could neither use nor replace it.
type Control struct {
	controlCell
	opened[*Handle[*runtimepb.KeyControl]]
}

type controlCell struct{ valueOf[*runtimepb.KeyControl] }

// StateKey returns the id of the cell.
func (controlCell) StateKey() string { return controlID }

// Open reads the control message. Fail the bundle if it returns an error.
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
