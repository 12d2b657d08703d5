//go:build race

package coders

// raceEnabled: under the race detector counts of allocations mean nothing.
const raceEnabled = true
