package beamtest

import "errors"

// ErrCrash is the error of a bundle whose worker has crashed, see [Kit.CrashAt].
var ErrCrash = errors.New("beamtest: the worker crashed")

// CrashAt makes the worker crash at the n-th step from now; 1 is the next step, and 0 cancels an
// earlier CrashAt. A step is an RPC, a timer that is set or cleared, a value that is emitted to
// an [Output], or the end of a bundle, which the runner then does not commit. The step has no
// effect, and later steps of the bundle have none either: an RPC returns ErrCrash, and a timer or
// an emitter panics with it. The bundle fails, even if the DoFn ignores the error. A test then
// retries the bundle with a new DoFn.
func (k *Kit) CrashAt(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crashIn = n
}

// step counts a step. The caller holds the lock of the kit.
func (b *bundle) step() error {
	if b.ended != nil {
		return b.ended
	}
	if k := b.kit; k.crashIn > 0 {
		k.crashIn--
		if k.crashIn == 0 {
			b.ended = ErrCrash
		}
	}
	return b.ended
}

// mustStep is step for a caller that cannot return an error. It panics.
func (b *bundle) mustStep() {
	b.kit.mu.Lock()
	defer b.kit.mu.Unlock()
	if err := b.step(); err != nil {
		panic(err)
	}
}
