//go:build race

package canonjson_test

// raceEnabled: under the race detector pools drop items at random, so counts of
// allocations mean nothing.
const raceEnabled = true
