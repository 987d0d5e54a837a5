// Package archive exports a store to a file, and imports the file into a store of any kind.
//
// The file is NDJSON: a header, the rules, each queue with its jobs and counters, and a trailer with totals and the
// SHA-256 of all lines before it. A signature may follow.
//
// It promises that nothing is lost: payloads keep every byte, and jobs their state and turn. The whole file is checked
// first, so a damaged file, or one of a newer format, changes nothing. With a key, neither does a file without a valid
// signature; without a key, nothing proves who wrote the file. An interrupted import can be repeated.
//
// It refuses to export a store in use, unless asked to, or jobs deferred on NATS, which are not in the store. It
// refuses to import over a queue that holds jobs or over a different rule. It does not carry the counts of rules.
package archive
