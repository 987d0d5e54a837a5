// Package store opens an engine from what a person writes on a command line: the
// URL of a Redis, or the path of a file.
//
// It promises errors that name the flag to change. It refuses URLs that it does
// not understand in full, and never shows a password.
package store
