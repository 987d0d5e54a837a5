// Package config reads the file of queues that a process may be given at start,
// and makes those that are missing.
//
// It promises that a file is understood as a whole or refused as a whole, each
// fault with its line, its column and the name of the field. A queue in the file
// means just what it means in the API: its fields are read by queue.ParseSpec.
//
// It refuses unknown and repeated keys, anchors and tags, and to change a queue
// that exists: the engine is where specs live.
package config
