// Flinkdemo runs the triage example on a Flink cluster that it starts on this machine. It kills a
// worker process after the job has made checkpoints and before the job is done.
//
//	flinkdemo --program PATH --input FILE --out DIR
//
// It needs Linux, Java 17 and Maven. The exit status is 0 if Flink has restored the job from a
// checkpoint and the job has ended.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/beamagents/beamagents-go/internal/flinktest"
)

func main() {
	program := flag.String("program", "", "the example, built")
	input := flag.String("input", "", "file of envelopes, one a line in JSON")
	out := flag.String("out", "", "folder for the outputs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := demo(ctx, *program, *input, *out, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "flinkdemo:", err)
		os.Exit(1)
	}
}

// demo runs the demonstration and prints to w.
func demo(ctx context.Context, program, input, out string, w io.Writer) (err error) {
	// The workers run in another folder.
	for _, path := range []*string{&program, &input, &out} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	sayf("starting Flink")
	cluster, err := flinktest.Start(ctx, flinktest.DefaultPOM)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Stop(err != nil)) }()

	const name = "triage-demo"
	cmd := exec.CommandContext(ctx, program, "--input", input, "--out", out, "--latency", "100ms", //nolint:gosec // the program of the flag
		"--runner", "agents-flink", "--endpoint", cluster.Endpoint, "--environment_type", "PROCESS",
		"--flink_master", strings.TrimPrefix(string(cluster.REST), "http://"), "--job_name", name,
		"--parallelism", "2", "--flink_checkpoint_interval", "2s")
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	killed := make(chan error, 1)
	go func() { killed <- killWorker(ctx, cluster, name, out) }()
	select {
	case err = <-ended:
		return errors.Join(errors.New("the program has ended before a worker was killed"), err)
	case err = <-killed:
		if err != nil {
			return errors.Join(err, cmd.Process.Kill(), <-ended)
		}
	}
	if err := <-ended; err != nil {
		return err
	}
	job, err := cluster.REST.Find(ctx, name)
	if err != nil {
		return err
	}
	made, err := cluster.REST.Checkpoints(ctx, job.ID)
	if err != nil {
		return err
	}
	sayf("Flink has completed %d checkpoints, and restored %d", made.Counts.Completed, made.Counts.Restored)
	if made.Counts.Restored == 0 {
		return errors.New("the job was not restored from a checkpoint")
	}
	return nil
}

func sayf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// killWorker kills a worker while the job runs.
func killWorker(ctx context.Context, cluster *flinktest.Cluster, name, out string) error {
	job, err := cluster.REST.Find(ctx, name)
	if err != nil {
		return err
	}
	if err := errors.Join(cluster.REST.WaitRunning(ctx, job.ID), cluster.REST.WaitCheckpoints(ctx, job.ID, 3)); err != nil {
		return err
	}
	worker, err := findWorker(cluster.TaskManagerPIDs())
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(out, "done")); err == nil {
		return errors.New("the agents are done before a worker was killed")
	}
	if err := syscall.Kill(worker, syscall.SIGKILL); err != nil {
		return err
	}
	sayf("killed worker process %d", worker)
	return nil
}

// findWorker returns a worker process of a task manager. It belongs to the process group of the
// task manager.
func findWorker(taskManagers []int) (int, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0, err
	}
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(args, []byte("\x00--worker=true\x00")) {
			continue // another program, or a process that has ended meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return 0, err
		}
		if group, err := syscall.Getpgid(pid); err == nil && slices.Contains(taskManagers, group) {
			return pid, nil
		}
	}
	return 0, errors.New("no task manager has a worker process")
}
