// Package examples carries the example files in the programs that show them, so
// that they need nothing but themselves.
package examples

import _ "embed"

// Messages are some hundred jobs as NDJSON, as the API takes them.
//
//go:embed messages.ndjson
var Messages []byte
