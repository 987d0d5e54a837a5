// Package config reads the file of rules and queues that a process may be given at start,
// and makes those that are missing.
//
// It promises that a file is understood as a whole or refused as a whole, each
// fault with its line, its column and the name of the field. A rule or a queue in the file
// means just what it means in the API: rules.Parse and queue.ParseSpec read their fields.
//
// It refuses unknown and repeated keys, anchors and tags, and to change a rule or a queue
// that exists: the engine is where they live.
package config
