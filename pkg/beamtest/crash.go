package beamtest

import "errors"

// ErrCrash is the error of a bundle whose worker died, by [Kit.CrashAt].
var ErrCrash = errors.New("beamtest: the worker crashed")

// CrashAt lets the worker die at the n-th step from now, the first of which is 1; 0 takes
// the order back. A step is an RPC, a timer that is set or cleared, a value that is emitted
// to an [Output], or the end of a bundle, which the runner then does not commit. The step
// has no effect, nor has any other of its bundle: an RPC returns ErrCrash, a timer and an
// emitter panic with it. The bundle fails, whatever the DoFn makes of that, and a test
// retries it with a new DoFn.
func (k *Kit) CrashAt(n int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.crashIn = n
}

// step counts a step. The kit is locked.
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

// mustStep is step for what has no error of its own.
func (b *bundle) mustStep() {
	b.kit.mu.Lock()
	defer b.kit.mu.Unlock()
	if err := b.step(); err != nil {
		panic(err)
	}
}
