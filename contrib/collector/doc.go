// Package collector tests transforms.ExportTraces against the OTLP receiver of the OpenTelemetry
// Collector. It has no code to import.
//
// The receiver is built from the collector's own Go modules and listens on a loopback port. A job
// with RunAgent and EventsToTraces runs in its own process and exports to the receiver. The tests
// compare what arrives with the events of the job, and kill the collector in the middle of the
// job.
package collector
