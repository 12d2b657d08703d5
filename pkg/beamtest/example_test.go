package beamtest_test

import (
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/state"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/timers"

	"github.com/beamagents/beamagents-go/pkg/beamtest"
)

// countFn counts the elements of a key and emits the count.
type countFn struct {
	Count state.Value[int64]
}

func (f *countFn) ProcessElement(sp state.Provider, key string, _ []byte, emit func(string)) error {
	n, _, err := f.Count.Read(sp)
	if err != nil {
		return err
	}
	emit(fmt.Sprint(key, " ", n+1))
	return f.Count.Write(sp, n+1)
}

func Example() {
	fn := &countFn{Count: state.MakeValueState[int64]("count")}
	kit, err := beamtest.New(fn)
	if err != nil {
		fmt.Println(err)
		return
	}
	process := func(sp state.Provider, _ timers.Provider) error {
		return fn.ProcessElement(sp, "k", nil, func(out string) { fmt.Println(out) })
	}

	err = kit.Run("k", process)
	fmt.Println(err, "-", kit.RPCs())

	// The bundle fails after the element and is tried again: the same comes out.
	err = kit.Replay("k", beamtest.Dropped, process)
	fmt.Println(err)

	// The runner refuses the write: nothing is stored.
	kit.FailAt(2, nil)
	err = kit.Run("k", process)
	fmt.Println(err)
	fmt.Printf("stored: %d\n", kit.Bytes("k", "count"))
	// Output:
	// k 1
	// <nil> - 1 reads, 1 clears, 1 appends
	// k 2
	// k 2
	// <nil>
	// k 3
	// beamtest: injected failure
	// stored: [2]
}
