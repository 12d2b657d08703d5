//go:build soak

package transforms

import "testing"

// TestSoakAgentSchedules is TestAgentSameForEverySchedule with many more histories.
func TestSoakAgentSchedules(t *testing.T) {
	checkSchedules(t, 10_000, uint64(5000 / *soakPart))
}
