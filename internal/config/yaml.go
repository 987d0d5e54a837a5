package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits checked before parsing, so that any file takes at most 150 MiB of memory and a few seconds.
const (
	// MaxBytes is the maximum size of a file.
	MaxBytes = 4 << 20
	// maxMarks bounds the number of values: each value but the first has a mark before it.
	maxMarks = 300_000
	// maxDepth is the maximum nesting: 64 within a rule or queue, plus its list and the file.
	maxDepth = 64 + 2
)

// marks are the bytes that separate values.
const marks = ",:-?[{\n"

// Read reads a whole file of at most MaxBytes.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, MaxBytes+1)) // devices and pipes have no size to check first
	if err != nil {
		return nil, err
	}
	if len(data) > MaxBytes {
		return nil, &Error{File: path, Reason: fmt.Sprintf("is too long: the limit is %d bytes", MaxBytes)}
	}
	return data, nil
}

// load parses YAML, which includes JSON. It returns nil for a file without content. Its error is an *Error.
func load(file string, data []byte) (*yaml.Node, error) {
	if len(data) > MaxBytes {
		return nil, &Error{File: file, Reason: fmt.Sprintf("is too long: the limit is %d bytes", MaxBytes)}
	}
	n := 0
	for i := range len(marks) {
		n += bytes.Count(data, []byte(marks[i:i+1]))
	}
	if n > maxMarks {
		return nil, &Error{File: file, Reason: fmt.Sprintf(
			"is too large: it has %d lines, commas, colons, dashes and brackets, the limit is %d; split it", n, maxMarks)}
	}
	loader, err := yaml.NewLoader(bytes.NewReader(data), yaml.WithPlugin(loaderlimits.New(
		loaderlimits.DepthFunc(checkDepth),
	)))
	if err != nil {
		return nil, &Error{File: file, Reason: err.Error()}
	}
	var body *yaml.Node
	for {
		var doc yaml.Node
		switch err := loader.Load(&doc); {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, syntax(file, err)
		}
		switch {
		case len(doc.Content) == 0 || doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null":
		case body != nil:
			e := &Error{File: file, Reason: "has a second YAML document; a file must have one document"}
			e.at(doc.Content[0])
			return nil, e
		default:
			body = doc.Content[0]
		}
	}
}

func checkDepth(depth int, _ *yaml.DepthContext) error {
	if depth > maxDepth {
		return fmt.Errorf("is nested deeper than %d levels", maxDepth-2)
	}
	return nil
}

// syntax converts a parser error to an *Error.
func syntax(file string, err error) error {
	e := &Error{File: file, Reason: err.Error()}
	var at *yaml.LoadError
	if errors.As(err, &at) {
		e.Reason, e.Line, e.Column = strings.TrimPrefix(at.Message, "yaml: "), at.Mark.Line, at.Mark.Column
	}
	return e
}

// JSON converts a YAML file to JSON. Its error is an *Error.
func JSON(file string, data []byte) ([]byte, error) {
	body, err := load(file, data)
	if err != nil || body == nil {
		return []byte("null"), err
	}
	c := &converter{document: &document{file: file}, where: map[string]*yaml.Node{}}
	return c.convert(nil, body, "")
}
