//go:build flink

package flinktest

import (
	"context"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

// Flink listens only on the loopback interface.
func TestListensOnLoopback(t *testing.T) {
	for _, pid := range append(Running().TaskManagerPIDs(), Running().jobManager.cmd.Process.Pid) {
		all, err := Listens(pid)
		if err != nil || len(all) == 0 {
			t.Errorf("process %d listens on %v, %v", pid, all, err)
		}
		for _, at := range all {
			if !at.Addr().IsLoopback() {
				t.Errorf("process %d listens on %v", pid, at)
			}
		}
	}
}

// A task manager can be killed, and another started.
func TestTaskManagers(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	c := Running()
	if err := c.KillTaskManager(); err != nil {
		t.Fatal(err)
	}
	count := func(want int) {
		t.Helper()
		_, err := wait(ctx, "task managers", func() (int, bool, error) {
			n, err := c.REST.taskManagers(ctx)
			return n, n == want, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count(0)
	if err := c.StartTaskManager(); err != nil {
		t.Fatal(err)
	}
	count(1)
}
