// Package examples embeds example files into the programs that use them.
package examples

import _ "embed"

// Messages are a few hundred jobs as NDJSON, in the format of the API.
//
//go:embed messages.ndjson
var Messages []byte
