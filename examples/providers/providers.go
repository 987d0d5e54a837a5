// Package providers embeds the presets of well-known providers into the programs that use them.
package providers

import "embed"

// Files are the presets: files of queues, each with one queue.
//
//go:embed *.yaml
var Files embed.FS
