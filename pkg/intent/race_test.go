//go:build race

package intent_test

// raceEnabled: under the race detector pools drop items at random, so counts of
// allocations mean nothing.
const raceEnabled = true
