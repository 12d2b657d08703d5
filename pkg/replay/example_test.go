package replay_test

import (
	"fmt"
	"strings"

	"github.com/beamagents/beamagents-go/pkg/intent"
	"github.com/beamagents/beamagents-go/pkg/replay"
)

// An agent runs from the top each time and pays for each model call once.
func Example() {
	// ask looks for the response in the cache, and calls the model if it is not there.
	ask := func(c *replay.Cache, calls *replay.Repeats, question string, model func() string) (string, error) {
		key, err := calls.Key(intent.CacheRequest{
			EntityKey: []byte("customer-1"), Seq: 3, Model: "m", Messages: []string{question},
		})
		if err != nil {
			return "", err
		}
		if response, ok := c.Get(key); ok {
			return string(response), nil
		}
		response := model()
		stored, err := c.Put(key, []byte(response))
		if err != nil {
			return "", err
		}
		if stored.Differs {
			fmt.Println("the model has changed its mind") // a counter, in a pipeline
		}
		return response, nil
	}

	paid := 0
	dice := func() string {
		paid++
		return fmt.Sprint("rolled ", paid)
	}
	c := replay.New(nil, 1_700_000_000_000)
	for _, run := range []string{"start", "resume"} {
		var calls replay.Repeats
		for range 2 {
			response, err := ask(c, &calls, "roll the dice", dice)
			if err != nil {
				panic(err)
			}
			fmt.Printf("%s: %s\n", run, response)
		}
	}
	fmt.Println("calls paid for:", paid)

	// A response that is too large for the cache is asked for again each time, and compared.
	for range 2 {
		var calls replay.Repeats
		if _, err := ask(c, &calls, "write a novel", func() string {
			paid++
			return strings.Repeat(fmt.Sprint(paid), replay.MaxBlobBytes)
		}); err != nil {
			panic(err)
		}
	}
	fmt.Println("calls paid for:", paid)
	// Output:
	// start: rolled 1
	// start: rolled 2
	// resume: rolled 1
	// resume: rolled 2
	// calls paid for: 2
	// the model has changed its mind
	// calls paid for: 4
}
