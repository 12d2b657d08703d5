package replay

import "github.com/beamagents/beamagents-go/pkg/intent"

// Repeats numbers equal model calls, so that an agent that asks the same question twice gets
// two answers. Its zero value is ready to use. Each activation, also a resumed one, begins
// with a new Repeats: an agent that runs again from the top then finds the answers that it had.
type Repeats struct {
	seen map[string]uint32 // by the key of the first call
}

// Key returns the cache key of the next call of r. It is intent.CacheKey of r, with r.Repeat
// set to the number of equal calls so far; the Repeat that r has is ignored. So the first of
// equal calls has the key that programs in other languages compute. The error is that of
// CacheKey; such a call does not count.
func (s *Repeats) Key(r intent.CacheRequest) (string, error) {
	r.Repeat = 0
	first, err := intent.CacheKey(r)
	if err != nil {
		return "", err
	}
	key := first
	if r.Repeat = s.seen[first]; r.Repeat > 0 {
		if key, err = intent.CacheKey(r); err != nil {
			return "", err
		}
	}
	if s.seen == nil {
		s.seen = make(map[string]uint32)
	}
	s.seen[first]++
	return key, nil
}
