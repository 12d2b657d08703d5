//go:build !race

package intent_test

const raceEnabled = false
