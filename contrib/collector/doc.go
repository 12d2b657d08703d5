// Package collector tests transforms.ExportTraces against the OTLP receiver of the
// OpenTelemetry Collector. It has no code to import.
//
// The receiver is the one that a collector is built of, from its own Go modules, on a port
// of the loopback. A job with RunAgent and EventsToTraces exports to it from a process of
// its own. The tests compare what has arrived with the events of the job, and let the
// collector die in the middle of it.
package collector
