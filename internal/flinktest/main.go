package flinktest

import (
	"context"
	"fmt"
	"os"
	"testing"
)

var running *Cluster

// POM returns the pom that the environment variable FLINKTEST_POM names, or DefaultPOM.
func POM() ([]byte, error) {
	if name := os.Getenv("FLINKTEST_POM"); name != "" {
		return os.ReadFile(name)
	}
	return DefaultPOM, nil
}

// Main is for TestMain. It runs the tests of a package with a cluster of POM, and returns their
// exit status. If a test fails, Main keeps the logs and prints their ends.
func Main(m *testing.M) int {
	pom, err := POM()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FLINKTEST_POM:", err)
		return 1
	}
	c, err := Start(context.Background(), pom)
	if err != nil {
		fmt.Fprintln(os.Stderr, "there is no Flink cluster:", err)
		return 1
	}
	running = c
	status := m.Run()
	if status != 0 {
		fmt.Fprintf(os.Stderr, "the logs are in %s\n%s", c.Dir, c.Logs(30))
	}
	if err := c.Stop(status != 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return status
}

// Running returns the cluster that Main has started.
func Running() *Cluster { return running }
