// Package archive writes a store into a file and puts such a file into a store.
//
// The file is NDJSON: a header, the rules, then each queue with its jobs and what it had counted, at the end a trailer
// with the numbers of all and a checksum, the SHA-256 of all lines before it, and behind that a signature if it was
// asked for. It says the same whatever kind of store it was made from.
//
// It promises that nothing is lost: payloads byte for byte, every job in its state and at its turn. A file that was cut
// or damaged, or is of a newer format, changes nothing, because all of it is checked first; so does, when a key is
// given, one that was altered, or is not signed with it. Without a key the checksum says nothing about who wrote the
// file. An import that was broken off is repeated and ends the same. It refuses to export a store that is in use,
// unless that is asked for, and jobs deferred on NATS, which are not in the store; and to put a queue where there is
// one, or a rule where there is another. What was taken from rules it does not carry.
package archive
