package push

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/penstock/penstock/queue/invalid"
)

// table reads CSV with a header row.
type table struct {
	in                *csv.Reader
	limit             *recordLimit
	names             []string
	id, payload, lane int // columns, -1 if absent
}

// OpenCSV returns a Source that reads CSV. If laneColumn is not empty, the column of that name has the lanes of the
// jobs and is not part of the payload.
func OpenCSV(r io.Reader, laneColumn string) (Source, error) {
	if laneColumn == "id" || laneColumn == "payload" {
		return nil, fmt.Errorf("column %s cannot be the lane column: it has another meaning", laneColumn)
	}
	limit := &recordLimit{from: r}
	limit.next()
	t := &table{in: csv.NewReader(limit), limit: limit, id: -1, payload: -1, lane: -1}
	t.in.ReuseRecord = true
	head, err := t.in.Read()
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the CSV file is empty: the first row must name the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("invalid header row, which needs commas, or semicolons without quotes, between names: %w", err)
	}
	if len(head) == 1 && strings.Contains(head[0], ";") { // as spreadsheets write it where numbers have commas
		head = strings.Split(head[0], ";")
		t.in.Comma, t.in.FieldsPerRecord = ';', len(head)
	}
	seen := map[string]bool{}
	for i, name := range head {
		if i == 0 {
			name = strings.TrimPrefix(name, "\ufeff")
		}
		name = strings.TrimSpace(name)
		if name == "" || seen[name] {
			return nil, fmt.Errorf("column %d of the header row: %q: column names must be unique and not empty", i+1, name)
		}
		seen[name] = true
		t.names = append(t.names, name)
		switch name {
		case "id":
			t.id = i
		case "payload":
			t.payload = i
		case laneColumn:
			t.lane = i
		}
	}
	if laneColumn != "" && t.lane < 0 {
		return nil, fmt.Errorf("no lane column %q among the columns %s%s", laneColumn,
			strings.Join(t.names, ", "), invalid.DidYouMean(laneColumn, t.names))
	}
	if t.payload >= 0 && len(t.names) > t.width() {
		return nil, fmt.Errorf("beside a column payload only id and the lane column are allowed, found %s: move them into "+
			"the payload, or rename payload so that all columns become the payload",
			strings.Join(t.others(), ", "))
	}
	if t.payload < 0 && len(t.names) == t.width() {
		return nil, fmt.Errorf(
			"found only a column %s: add a column payload, or other columns for the payload",
			strings.Join(t.names, " and a column "),
		)
	}
	return t, nil
}

// width returns the number of columns that are not part of the payload.
func (t *table) width() int {
	n := 0
	for _, i := range []int{t.id, t.payload, t.lane} {
		if i >= 0 {
			n++
		}
	}
	return n
}

func (t *table) others() (names []string) {
	for i, name := range t.names {
		if i != t.id && i != t.payload && i != t.lane {
			names = append(names, name)
		}
	}
	return names
}

func (t *table) Next() (Line, error) {
	t.limit.next()
	record, err := t.in.Read()
	var bad *csv.ParseError
	switch {
	case errors.As(err, &bad) && errors.Is(err, csv.ErrFieldCount):
		return Line{Number: bad.StartLine, Err: fmt.Errorf(
			"has %d columns, but the header row has %d", len(record), len(t.names),
		)}, nil
	case err != nil:
		return Line{}, err // after a broken quote, records cannot be told apart
	}
	number, _ := t.in.FieldPos(0)
	line := Line{Number: number}
	if t.lane >= 0 && !utf8.ValidString(record[t.lane]) {
		line.Err = fmt.Errorf("column %s: not UTF-8", t.names[t.lane])
		return line, nil
	}
	payload, err := t.payloadOf(record)
	if err != nil {
		line.Err = err
		return line, nil
	}
	if t.id >= 0 {
		line.ID = record[t.id]
	}
	if line.ID == "" {
		line.ID = LineID(payload, number)
	}
	id, err := json.Marshal(line.ID)
	if err != nil {
		line.Err = err
		return line, nil
	}
	line.Body = fmt.Appendf(nil, `{"id":%s,"payload":%s}`, id, payload)
	if t.lane >= 0 && record[t.lane] != "" {
		line.Body = fmt.Appendf(line.Body[:len(line.Body)-1], `,"lane":%s}`, appendQuoted(nil, record[t.lane]))
	}
	return line, nil
}

func (t *table) payloadOf(record []string) ([]byte, error) {
	if t.payload >= 0 {
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(record[t.payload])); err != nil {
			return nil, fmt.Errorf("column payload: %w", notJSON(err))
		}
		return compact.Bytes(), nil
	}
	out := []byte{'{'}
	for i, name := range t.names {
		if i == t.id || i == t.lane {
			continue
		}
		if !utf8.ValidString(record[i]) {
			return nil, fmt.Errorf("column %s: not UTF-8", name)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = appendQuoted(append(appendQuoted(out, name), ':'), record[i])
	}
	return append(out, '}'), nil
}

// appendQuoted appends s as a JSON string, without HTML escapes, so that payloads look like the file.
func appendQuoted(b []byte, s string) []byte {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string into memory cannot fail
	return append(b, bytes.TrimRight(out.Bytes(), "\n")...)
}
