package replay

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/penstock/penstock/leaky"
)

// The formats of logs.
const (
	Combined = "combined" // and common, which is its beginning
	NDJSON   = "ndjson"
	CSV      = "csv"
)

// format takes the lines of a log apart.
type format interface {
	// slot returns where the value of a field will be among those of a line, or what is wrong with the name.
	slot(field string) (int, error)
	// parse returns when a line was written. The values of its fields, nil for those that it does not have, are valid
	// until the next line is read.
	parse(line []byte) (leaky.Instant, [][]byte, error)
}

// detect tells the format of a log by its first line, and by its name where the line may be anything.
func detect(name string, first []byte) (string, error) {
	base := strings.TrimSuffix(strings.ToLower(path.Base(name)), ".gz")
	switch {
	case len(first) > 0 && first[0] == '{':
		return NDJSON, nil
	case strings.HasSuffix(base, ".csv"):
		return CSV, nil
	case strings.HasSuffix(base, ".ndjson"), strings.HasSuffix(base, ".jsonl"):
		return NDJSON, nil
	}
	if _, ok := splitCombined(first); ok {
		return Combined, nil
	}
	if bytes.IndexByte(first, '"') < 0 && bytes.IndexByte(first, '[') < 0 && bytes.IndexByte(first, separator(first)) > 0 {
		return CSV, nil
	}
	return "", fmt.Errorf("its first line does not tell the format; give --format combined, ndjson or csv")
}
