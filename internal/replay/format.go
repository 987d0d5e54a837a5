package replay

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"github.com/penstock/penstock/leaky"
)

// Formats of logs.
const (
	Combined = "combined" // also for common logs, whose lines are the first part of combined ones
	NDJSON   = "ndjson"
	CSV      = "csv"
)

// format parses the lines of a log.
type format interface {
	// slot returns the index of a field among the values of a line. Its error explains an invalid name.
	slot(field string) (int, error)
	// parse returns a line's time and the values of its fields, nil for missing ones. The values are valid until the
	// next call.
	parse(line []byte) (leaky.Instant, [][]byte, error)
}

// detect detects a log's format by its first line, or by its name if the line fits several formats.
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
	return "", fmt.Errorf("its first line does not identify the format; give --format combined, ndjson or csv")
}
