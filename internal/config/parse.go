package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/queue"
)

// MaxBytes is the longest file that is read: room for some 100,000 queues.
const MaxBytes = 32 << 20

// maxErrors is how many faults are told at once.
const maxErrors = 20

// Error is a fault in a file.
type Error struct {
	File         string
	Line, Column int
	Field        string // such as "queues[2].retry.max_attempts"
	Reason       string
}

func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return s + ": " + e.Reason
}

// Load reads a file of queues. validate, which may be nil, checks their deliver
// parts. The error joins an *Error for each faulty queue.
func Load(path string, validate func(json.RawMessage) error) ([]queue.Spec, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading the queues: %w", err)
	}
	if info.Size() > MaxBytes {
		return nil, &Error{File: path, Reason: fmt.Sprintf("has %d bytes, the limit is %d", info.Size(), MaxBytes)}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the queues: %w", err)
	}
	return Parse(path, data, validate)
}

// Parse reads what is in a file of queues. The file's name is for the errors.
func Parse(file string, data []byte, validate func(json.RawMessage) error) ([]queue.Spec, error) {
	parsed, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey()) // they are refused below, by name
	if err != nil {
		return nil, syntax(file, err)
	}
	d := &document{file: file}
	list, err := d.queues(parsed)
	if err != nil {
		return nil, err
	}
	var specs []queue.Spec
	var faults []error
	lines := map[string]int{}
	for i, node := range list {
		spec, err := d.queue(i, node, validate)
		if err == nil {
			if first, twice := lines[spec.Name]; twice {
				err = d.fault(node, fmt.Sprintf("queues[%d].name", i), fmt.Sprintf("%q is given twice, first in line %d", spec.Name, first))
			} else {
				lines[spec.Name] = node.GetToken().Position.Line
			}
		}
		if err != nil {
			if faults = append(faults, err); len(faults) == maxErrors {
				faults = append(faults, errors.New("and perhaps more"))
				break
			}
			continue
		}
		specs = append(specs, spec)
	}
	if len(faults) > 0 {
		return nil, errors.Join(faults...)
	}
	return specs, nil
}

// document is a file while it is read.
type document struct{ file string }

func (d *document) fault(n ast.Node, field, reason string) *Error {
	e := &Error{File: d.file, Field: field, Reason: reason}
	if n != nil {
		e.at(n.GetToken())
	}
	return e
}

func (e *Error) at(t *token.Token) {
	if t != nil && t.Position != nil {
		e.Line, e.Column = t.Position.Line, t.Position.Column
	}
}

// syntax turns the parser's error into ours.
func syntax(file string, err error) error {
	e := &Error{File: file, Reason: err.Error()}
	var y yaml.Error
	if errors.As(err, &y) {
		e.Reason = y.GetMessage()
		e.at(y.GetToken())
	}
	return e
}

// queues finds the list of queues, the file's only part.
func (d *document) queues(f *ast.File) ([]ast.Node, error) {
	var body ast.Node
	for _, doc := range f.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.NullType || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			return nil, d.fault(doc.Body, "", "a second YAML document; one file is one document")
		}
		body = doc.Body
	}
	if body == nil {
		return nil, &Error{File: d.file, Reason: "is empty; it should begin with \"queues:\""}
	}
	var list ast.Node
	err := d.members(body, "", func(key string, keyNode, value ast.Node) error {
		if key != "queues" {
			return d.fault(keyNode, key, "is not a field; the file has one, queues")
		}
		list = value
		return nil
	})
	if err != nil {
		return nil, err
	}
	s, ok := list.(*ast.SequenceNode)
	if !ok {
		return nil, d.fault(body, "queues", "must be a list of queues, each beginning with \"- name: ...\"")
	}
	return s.Values, nil
}

// queue reads one queue of the list.
func (d *document) queue(i int, node ast.Node, validate func(json.RawMessage) error) (queue.Spec, error) {
	c := &converter{document: d, prefix: fmt.Sprintf("queues[%d]", i), where: map[string]ast.Node{}}
	raw, err := c.convert(nil, node, "")
	if err != nil {
		return queue.Spec{}, err
	}
	spec, err := queue.ParseSpec(raw)
	if err == nil && spec.Name == "" {
		err = &queue.FieldError{Field: "name", Reason: "is missing"}
	}
	if err == nil && validate != nil && len(spec.Deliver) > 0 {
		if err = validate(spec.Deliver); err != nil {
			var field *queue.FieldError
			if !errors.As(err, &field) {
				err = &queue.FieldError{Field: "deliver", Reason: err.Error()}
			}
		}
	}
	if err != nil {
		return queue.Spec{}, c.blame(node, err)
	}
	deliver.Complete(&spec)
	return spec, nil
}
