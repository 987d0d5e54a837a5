// Package store opens an engine named on a command line by the URL of a Redis or the path of a directory.
//
// Its errors name the flag to change and never show a password. It refuses URLs that it does not fully understand.
package store
