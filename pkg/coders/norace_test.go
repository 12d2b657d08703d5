//go:build !race

package coders

const raceEnabled = false
