// Package racedetector tells a test whether it runs under the race detector.
//
// Use it in two kinds of tests. A test that counts allocations or memory says nothing under
// the detector, which adds its own and lets pools drop items at random. A test that plays
// many random histories takes ten times as long there and finds no more races after some of
// them. Such a test does less where [Enabled] is true; make test then runs it again, whole,
// without the detector. A test of the root package checks that the Makefile names each test
// that uses Enabled.
package racedetector

// Enabled is true in a program that was built with -race.
const Enabled = enabled
