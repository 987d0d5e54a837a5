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

// MaxLineBytes is the longest line that is read. It is above what the API takes,
// so that a line between the two is refused by the server, in its words.
const MaxLineBytes = 4 << 20

// Line is one job of a file, as the API takes it.
type Line struct {
	Number int // of the line in the file, from 1
	ID     string
	Body   []byte // one JSON object without line breaks
	// Err says why the line cannot be sent; the others can.
	Err error
}

// Source yields the jobs of a file in order, and io.EOF after the last. Any
// other error ends it: what follows cannot be read.
type Source interface {
	Next() (Line, error)
}

// Formats are the names that Open takes.
const (
	NDJSON = "ndjson"
	CSV    = "csv"
)

// FormatOf guesses a file's format from its name; standard input is NDJSON.
func FormatOf(name string) (string, error) {
	lower := strings.ToLower(name)
	switch {
	case name == "-", strings.HasSuffix(lower, ".ndjson"), strings.HasSuffix(lower, ".jsonl"):
		return NDJSON, nil
	case strings.HasSuffix(lower, ".csv"):
		return CSV, nil
	}
	return "", fmt.Errorf("the name %q does not tell the format: give --format ndjson or --format csv", name)
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

// LineID is the id of a line that brings none: the first 16 hexadecimal digits
// of the SHA-256 of its content, a dash, and its number. The same file pushed
// again has the same ids; two equal lines of one file have different ones.
func LineID(content []byte, number int) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]) + "-" + strconv.Itoa(number)
}

// ndjson reads one JSON object a line. Blank lines are passed over.
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

// read returns the next line in memory of its own, cut short when it is too
// long; the rest of it is passed over.
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

// withID finds the id of a line, or puts one in. What is not a JSON object is
// not sent: alone in a stream it could be taken for several.
func withID(text []byte, number int) Line {
	line := Line{Number: number, Body: text}
	if !utf8.Valid(text) {
		line.Err = errors.New("is not UTF-8")
		return line
	}
	id, fields, err := findID(text)
	switch {
	case err != nil:
		line.Err = err
	case id != nil:
		// An id that is not a string is the server's to refuse.
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

// findID returns the value of the member "id" of an object, nil if there is
// none, and whether the object has any members.
func findID(text []byte) (id json.RawMessage, fields bool, err error) {
	err = members(text, func(name string, value json.RawMessage) {
		fields = true
		if name == "id" && id == nil {
			id = value
		}
	})
	return id, fields, err
}

// members calls f with every member of a JSON object, and nothing but one.
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
		return errors.New(`is not a JSON object such as {"payload": ...}`)
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
		f(name.(string), value) // the decoder takes nothing else there
	}
	if _, err := dec.Token(); err != nil {
		return notJSON(err)
	}
	if dec.More() {
		return errors.New("has something behind the JSON object")
	}
	return nil
}

func notJSON(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("is not JSON: it ends too early")
	}
	return fmt.Errorf("is not JSON: %w", err)
}
