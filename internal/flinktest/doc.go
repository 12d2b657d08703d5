// Package flinktest starts a Flink cluster and Beam's Flink job server on this machine, for
// tests, and stops them.
//
// # Behaviour
//
// [Start] starts a job manager, a task manager and a job server as processes that listen on
// free ports of the loopback interface. The jars come from Maven and are pinned in pom.xml;
// they are copied once, into out/flink/<hash of the pom> of the module. [Main] does it for
// the tests of a package, which find the cluster with [Running]. A [Cluster] can be given
// another task manager, and lose one. [REST] is a client of Flink's REST API: the state of
// jobs, their errors and checkpoints, savepoints.
//
// The processes end with Stop, and also when this process ends without it: by a panic, a
// signal or the time limit of go test. Logs and stored state are in a folder of the run,
// out/flink/run-*, which is kept if a test has failed.
//
// # Limits
//
// It runs on Linux, and needs Java 17 and Maven in the path. The processes may take 2.2 GB
// of memory together.
package flinktest
