package push

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/jsondepth"
)

// MaxLineBytes is the maximum length of a line. It is more than the limit of the API, so that the server refuses most
// long lines with its own error.
const MaxLineBytes = 4 << 20

// Line is one job of a file, as the API takes it.
type Line struct {
	Number int // of the line in the file, from 1
	ID     string
	Body   []byte // one JSON object without line breaks
	// Err is why the line cannot be sent. It does not affect other lines.
	Err error
}

// Source yields the jobs of a file in order, then io.EOF. Any other error is final.
type Source interface {
	Next() (Line, error)
}

// The formats.
const (
	NDJSON = "ndjson"
	CSV    = "csv"
)

// FormatOf returns the format of a file by its name. Standard input is NDJSON.
func FormatOf(name string) (string, error) {
	lower := strings.ToLower(name)
	switch {
	case name == "-", strings.HasSuffix(lower, ".ndjson"), strings.HasSuffix(lower, ".jsonl"):
		return NDJSON, nil
	case strings.HasSuffix(lower, ".csv"):
		return CSV, nil
	}
	return "", fmt.Errorf("unknown format of %q: use --format ndjson or --format csv", name)
}

// Open returns a Source that reads r in the named format.
func Open(r io.Reader, format string) (Source, error) {
	switch format {
	case NDJSON:
		return &ndjson{in: bufio.NewReaderSize(r, 64<<10)}, nil
	case CSV:
		return OpenCSV(r, "")
	}
	return nil, fmt.Errorf("format %q: must be ndjson or csv", format)
}

// LineID returns the id of a line without one: 16 hexadecimal digits of the SHA-256 of its content, a dash, and its
// number. The same file always has the same ids, and equal lines have different ids.
func LineID(content []byte, number int) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]) + "-" + strconv.Itoa(number)
}

// ndjson reads one JSON object per line, and skips blank lines.
type ndjson struct {
	in     *bufio.Reader
	number int
}

func (s *ndjson) Next() (Line, error) {
	for {
		text, long, err := s.read()
		if err != nil && (len(text) == 0 || !errors.Is(err, io.EOF)) {
			return Line{}, err
		}
		s.number++
		if s.number == 1 {
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
		}
		text = bytes.TrimSpace(text)
		switch {
		case long:
			return Line{Number: s.number, Err: fmt.Errorf("longer than %d bytes", MaxLineBytes)}, nil
		case len(text) > 0:
			return withID(text, s.number), nil
		case err != nil:
			return Line{}, err
		}
	}
}

// read returns a copy of the next line. It cuts a line that is too long, and skips the rest.
func (s *ndjson) read() (text []byte, long bool, err error) {
	for {
		part, err := s.in.ReadSlice('\n')
		if !long {
			text = append(text, part...)
			long = len(text) > MaxLineBytes
		}
		if long {
			text = text[:1]
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, long, err
		}
	}
}

// withID finds the id of a line, or adds one. Lines that are not JSON objects are errors, because in a stream the
// server could read them as several jobs.
func withID(text []byte, number int) Line {
	line := Line{Number: number, Body: text}
	if !utf8.Valid(text) {
		line.Err = errors.New("not UTF-8")
		return line
	}
	id, fields, err := findID(text)
	switch {
	case err != nil:
		line.Err = err
	case id != nil:
		// The server refuses an id that is not a string.
		_ = json.Unmarshal(id, &line.ID)
	default:
		line.ID = LineID(text, number)
		body := make([]byte, 0, len(text)+len(line.ID)+9)
		body = append(body, `{"id":"`...)
		body = append(body, line.ID...)
		body = append(body, '"')
		if fields {
			body = append(body, ',')
		}
		line.Body = append(body, text[1:]...)
	}
	return line
}

// findID returns the member "id" of an object, or nil, and whether the object has any members.
func findID(text []byte) (id json.RawMessage, fields bool, err error) {
	err = members(text, func(name string, value json.RawMessage) {
		fields = true
		if name == "id" && id == nil {
			id = value
		}
	})
	return id, fields, err
}

// members calls f with every member of a JSON object. Anything else is an error.
func members(text []byte, f func(name string, value json.RawMessage)) error {
	if err := jsondepth.Check(text, jsondepth.Max); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	open, err := dec.Token()
	if err != nil {
		return notJSON(err)
	}
	if open != json.Delim('{') {
		return errors.New(`not a JSON object such as {"payload": ...}`)
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return notJSON(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return notJSON(err)
		}
		f(name.(string), value) // the decoder accepts only strings here
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	if dec.More() {
		return errors.New("unexpected text after the JSON object")
	}
	return nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("not JSON: unexpected end")
	}
	return fmt.Errorf("not JSON: %w", err)
}
