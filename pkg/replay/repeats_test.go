package replay_test

import (
	"errors"
	"testing"

	"github.com/beamagents/beamagents-go/pkg/canonjson"
	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/replay"
)

func TestRepeats(t *testing.T) {
	request := intent.CacheRequest{EntityKey: []byte("k"), Model: "m", Messages: []string{"hello"}}
	other := request
	other.Model = "n"
	fresh := request
	fresh.Fresh, fresh.Attempt = true, 3
	again := fresh
	again.Attempt = 4
	set := request
	set.Repeat = 7 // ignored
	bad := request
	bad.Params = func() {}

	var repeats replay.Repeats
	seen := make(map[string]bool)
	for i, call := range []struct {
		request intent.CacheRequest
		repeat  uint32
	}{
		{request, 0}, {other, 0}, {request, 1}, {set, 2}, {fresh, 0}, {again, 0}, {other, 1}, {fresh, 1}, {request, 3},
	} {
		if _, err := repeats.Key(bad); !errors.Is(err, canonjson.ErrType) {
			t.Fatalf("call %d: %v", i, err)
		}
		got, err := repeats.Key(call.request)
		if err != nil {
			t.Fatal(err)
		}
		call.request.Repeat = call.repeat
		want, err := intent.CacheKey(call.request)
		if err != nil || got != want || seen[got] {
			t.Errorf("call %d: %s, want %s; there before: %v", i, got, want, seen[got])
		}
		seen[got] = true
	}
	// The first call of all has the key that programs in other languages compute.
	const python = "65838dd85db9b53cc2412abea24434b343011fff24878f2f1253f6cb80d3f03c"
	for range 2 { // each time it is resumed
		var resumed replay.Repeats
		if got, err := resumed.Key(request); got != python || err != nil {
			t.Errorf("Key = %s, %v", got, err)
		}
	}
}
