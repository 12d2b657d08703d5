// Package jsontoken reads and writes the strings and numbers of JSON text (RFC 8259), for the
// two packages that read JSON by hand: pkg/canonjson and pkg/events.
//
// A function that reads reports a fault as the offset of the byte that is wrong. Its caller
// makes an error of it, because each of the two packages has its own error type.
//
// Each of the two packages keeps its own scanner of objects, arrays and whole strings.
// That of pkg/canonjson writes the canonical form while it reads; that of pkg/events checks
// the text and keeps it as it is. A shared loop over the characters of a string saved no
// line, and made Canonicalize 3 % slower (BenchmarkCanonicalize/usual).
package jsontoken
