// Package config reads a file of rules and queues and creates those that are missing.
//
// A file is accepted or refused as a whole. Each fault has a line, a column and the name of the field. Rules and queues
// mean the same as in the API: rules.Parse and queue.ParseSpec read them.
//
// It refuses unknown and repeated keys, anchors and tags. It never changes an existing rule or queue: the engine's copy
// counts.
package config
