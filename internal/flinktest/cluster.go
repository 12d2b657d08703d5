package flinktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// slots is the number of task slots of a task manager. It bounds the sum of the parallelisms of
// the jobs that run at the same time.
const slots = 6

// startLimit is how long a process may take to answer after its start.
const startLimit = 3 * time.Minute

// Cluster is a running Flink cluster with a job server of Beam.
type Cluster struct {
	// Endpoint is the address of Beam's job service, for the flag --endpoint.
	Endpoint string
	// REST is Flink's REST API.
	REST REST
	// Dir has the logs of the processes, and what jobs store: checkpoints and savepoints.
	Dir string

	lib, conf  string
	jobManager *process
	jobServer  *process

	mu           sync.Mutex
	taskManagers []*process
	started      int // task managers started so far
}

// Start starts a job manager, a task manager and a job server from the artifacts of a pom. It
// tries twice, because another process may take a free port first, and because the machine may be
// busy.
func Start(ctx context.Context, pom []byte) (*Cluster, error) {
	if err := checkJava(ctx); err != nil {
		return nil, err
	}
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	lib, err := artifacts(ctx, root, pom)
	if err != nil {
		return nil, err
	}
	c, err := start(ctx, root, lib)
	if err != nil && ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "the first start of the cluster failed: %v\n", err)
		c, err = start(ctx, root, lib)
	}
	return c, err
}

func start(ctx context.Context, root, lib string) (_ *Cluster, err error) {
	dir, err := os.MkdirTemp(filepath.Join(root, "out", "flink"), "run-*")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 5)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		Endpoint: fmt.Sprintf("127.0.0.1:%d", ports[2]), REST: REST(fmt.Sprintf("http://127.0.0.1:%d", ports[1])),
		Dir: dir, lib: lib, conf: filepath.Join(dir, "conf"),
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\n%s", err, c.Logs(30))
			c.kill()
		}
	}()
	if err := c.configure(ports[0], ports[1]); err != nil {
		return nil, err
	}
	if c.jobManager, err = c.java("jobmanager", 512, "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint", "--configDir", c.conf); err != nil {
		return nil, err
	}
	// Keep the artifacts of jobs in the folder of the cluster instead of /tmp.
	if c.jobServer, err = c.java("jobserver", 512, "org.apache.beam.runners.flink.FlinkJobServerDriver",
		"--job-host=127.0.0.1", fmt.Sprintf("--job-port=%d", ports[2]), fmt.Sprintf("--artifact-port=%d", ports[3]),
		fmt.Sprintf("--expansion-port=%d", ports[4]), fmt.Sprintf("--flink-master=127.0.0.1:%d", ports[1]),
		"--flink-conf-dir="+c.conf, "--artifacts-dir="+filepath.Join(dir, "artifacts")); err != nil {
		return nil, err
	}
	if err := c.StartTaskManager(); err != nil {
		return nil, err
	}
	err = c.await(ctx, "the cluster with a task manager", c.jobManager, func() error {
		n, err := c.REST.taskManagers(ctx)
		if err == nil && n == 0 {
			err = errors.New("no task manager has registered")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return c, c.await(ctx, "the job server", c.jobServer, func() error {
		conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", c.Endpoint)
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// await waits until ready returns nil or the process has ended.
func (c *Cluster) await(ctx context.Context, what string, p *process, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		err := ready()
		switch {
		case err == nil:
			return nil
		case p.ended():
			return fmt.Errorf("%s: %s has ended", what, p.name)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is not there: %w: %w", what, ctx.Err(), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// configure writes Flink's configuration file. It does not set the checkpoint options of a job
// there, because Beam would not know them.
func (c *Cluster) configure(rpc, rest int) error {
	if err := os.MkdirAll(c.conf, 0o755); err != nil {
		return err
	}
	options := []string{
		"jobmanager.rpc.address: 127.0.0.1",
		"jobmanager.bind-host: 127.0.0.1",
		fmt.Sprintf("jobmanager.rpc.port: %d", rpc),
		"rest.address: 127.0.0.1",
		"rest.bind-address: 127.0.0.1",
		fmt.Sprintf("rest.port: %d", rest),
		"taskmanager.host: 127.0.0.1",
		"taskmanager.bind-host: 127.0.0.1",
		fmt.Sprintf("taskmanager.numberOfTaskSlots: %d", slots),
		"taskmanager.cpu.cores: 2.0",
		"taskmanager.memory.framework.heap.size: 128m",
		"taskmanager.memory.task.heap.size: 512m",
		"taskmanager.memory.framework.off-heap.size: 128m",
		"taskmanager.memory.task.off-heap.size: 128m",
		"taskmanager.memory.network.min: 96m",
		"taskmanager.memory.network.max: 96m",
		"taskmanager.memory.managed.size: 192m",
		"taskmanager.memory.jvm-metaspace.size: 256m",
		"taskmanager.memory.jvm-overhead.min: 192m",
		"taskmanager.memory.jvm-overhead.max: 192m",
		// Notice a killed task manager after 12 s instead of 50.
		"heartbeat.interval: 2000",
		"heartbeat.timeout: 12000",
		// The default of 10 s is too short on a busy machine.
		"pekko.startup-timeout: 2 min",
		"pekko.ask.timeout: 60 s",
		"classloader.resolve-order: parent-first",
		// The gRPC threads of Beam's jars outlive a job and have its class loader. With the
		// check, a class that one of them loads first can never be used again.
		"classloader.check-leaked-classloader: false",
		"execution.checkpointing.dir: " + fileURL(filepath.Join(c.Dir, "checkpoints")),
		"state.checkpoints.dir: " + fileURL(filepath.Join(c.Dir, "checkpoints")),
		"execution.checkpointing.savepoint-dir: " + fileURL(filepath.Join(c.Dir, "savepoints")),
		"state.savepoints.dir: " + fileURL(filepath.Join(c.Dir, "savepoints")),
		"io.tmp.dirs: " + filepath.Join(c.Dir, "tmp"),
	}
	if err := os.MkdirAll(filepath.Join(c.Dir, "tmp"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.conf, "config.yaml"), []byte(strings.Join(options, "\n")+"\n"), 0o644)
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

// opened are the Java packages that Flink and Beam access by reflection.
var opened = []string{
	"java.lang", "java.lang.reflect", "java.util", "java.util.concurrent", "java.util.concurrent.atomic",
	"java.util.concurrent.locks", "java.net", "java.io", "java.nio", "java.text", "java.time", "sun.nio.ch",
}

// java starts a class with a heap of the given size in MiB.
func (c *Cluster) java(name string, heap int, class string, args ...string) (*process, error) {
	flags := []string{
		fmt.Sprintf("-Xmx%dm", heap), "-Xms64m", "-XX:+UseSerialGC", "-XX:MaxMetaspaceSize=256m", "-XX:TieredStopAtLevel=1",
		"-Djava.io.tmpdir=" + filepath.Join(c.Dir, "tmp"), "-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	}
	for _, p := range opened {
		flags = append(flags, "--add-opens=java.base/"+p+"=ALL-UNNAMED")
	}
	flags = append(flags, "-cp", filepath.Join(c.lib, "*"), class)
	return startProcess(c.Dir, name, "java", append(flags, args...)...)
}

// StartTaskManager starts another task manager. Flink uses it as soon as it has registered.
func (c *Cluster) StartTaskManager() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.started++
	p, err := c.java(fmt.Sprintf("taskmanager-%d", c.started), 640, "org.apache.flink.runtime.taskexecutor.TaskManagerRunner", "--configDir", c.conf)
	if err == nil {
		c.taskManagers = append(c.taskManagers, p)
	}
	return err
}

// KillTaskManager kills the oldest task manager with SIGKILL, and the workers that it has started
// (the environment PROCESS), as when a machine fails.
func (c *Cluster) KillTaskManager() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taskManagers) == 0 {
		return errors.New("there is no task manager")
	}
	c.taskManagers[0].killGroup()
	c.taskManagers = c.taskManagers[1:]
	return nil
}

// TaskManagerPIDs returns the process ids of the task managers, which are also the ids of their
// process groups.
func (c *Cluster) TaskManagerPIDs() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pids []int
	for _, p := range c.taskManagers {
		pids = append(pids, p.cmd.Process.Pid)
	}
	return pids
}

// Logs returns the last lines of the log of each process.
func (c *Cluster) Logs(lines int) string {
	var text strings.Builder
	for _, p := range c.processes() {
		text.WriteString(p.tailLog(lines))
	}
	return text.String()
}

func (c *Cluster) processes() (all []*process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range append([]*process{c.jobManager, c.jobServer}, c.taskManagers...) {
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

func (c *Cluster) kill() {
	for _, p := range c.processes() {
		p.killGroup()
	}
}

// Stop ends all processes. It removes Dir, unless keep is true.
func (c *Cluster) Stop(keep bool) error {
	c.kill()
	if keep {
		return nil
	}
	return os.RemoveAll(c.Dir)
}

// freePorts returns free ports of the loopback interface.
func freePorts(ctx context.Context, n int) (ports []int, err error) {
	for range n {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = l.Close() }() // at the end, so that the same port is not returned twice
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
