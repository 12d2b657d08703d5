// Package flinktest starts and stops a local Flink cluster with Beam's Flink job server, for
// tests.
//
// # Behaviour
//
// [Start] starts a job manager, a task manager and a job server as processes that listen on free
// ports of the loopback interface. The jars come from Maven, with the versions of pom.xml, and
// are copied once into out/flink/<hash of the pom> of the module. [Main] starts a cluster for the
// tests of a package, which get it from [Running]. A test can add a task manager to a [Cluster]
// or kill one. [REST] is a client of Flink's REST API for jobs, their errors, checkpoints and
// savepoints.
//
// The processes end with Stop. They also end when this process ends without Stop, because of a
// panic, a signal or the time limit of go test. Logs and stored state are in a folder of the run,
// out/flink/run-*, which is kept if a test has failed.
//
// # Limits
//
// The package runs on Linux, and needs Java 17 and Maven in the path. The processes may use 2.2
// GB of memory together.
package flinktest
