package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

// maxErrors is the maximum number of faults in one error.
const maxErrors = 20

// Error is a fault in a file.
type Error struct {
	File         string // may be empty
	Line, Column int
	Field        string // for example "queues[2].retry.max_attempts"
	Reason       string
}

func (e *Error) Error() string {
	s := e.File
	switch {
	case e.Line > 0 && s == "":
		s = fmt.Sprintf("line %d, column %d", e.Line, e.Column)
	case e.Line > 0:
		s += fmt.Sprintf(":%d:%d", e.Line, e.Column)
	}
	if e.Field != "" {
		s += ": " + e.Field
	}
	return strings.TrimPrefix(s+": "+e.Reason, ": ")
}

// File is the content of a file: rules, queues, or both. A missing list is nil; an empty list is not.
type File struct {
	Rules  []rules.Rule
	Queues []queue.Spec
}

// Load reads a file. validate checks the deliver parts of queues; it may be nil. The error joins an *Error for each
// faulty rule and queue.
func Load(path string, validate func(queue string, target json.RawMessage) error) (File, error) {
	data, err := Read(path)
	if err != nil {
		return File{}, fmt.Errorf("reading the file of rules and queues: %w", err)
	}
	return Parse(path, data, validate)
}

// Parse parses the content of a file. The file's name is for errors.
func Parse(file string, data []byte, validate func(queue string, target json.RawMessage) error) (File, error) {
	body, err := load(file, data)
	if err != nil {
		return File{}, err
	}
	d := &document{file: file}
	lists, err := d.lists(body)
	if err != nil {
		return File{}, err
	}
	f := File{
		Rules: items(d, "rules", lists, readRule),
		Queues: items(d, "queues", lists, func(raw []byte) (queue.Spec, string, error) {
			return readQueue(raw, validate)
		}),
	}
	if len(d.faults) == maxErrors {
		d.faults = append(d.faults, errors.New("and perhaps more"))
	}
	if len(d.faults) > 0 {
		return File{}, errors.Join(d.faults...)
	}
	return f, nil
}

// items reads one of the lists, or returns nil if it is missing. It adds the faults of items to d.
func items[T any](
	d *document, list string, lists map[string]*yaml.Node, read func(raw []byte) (item T, name string, err error),
) []T {
	nodes, there := lists[list]
	if !there {
		return nil
	}
	all := []T{}
	lines := map[string]int{}
	for i, node := range nodes.Content {
		if len(d.faults) == maxErrors {
			break
		}
		c := &converter{document: d, prefix: fmt.Sprintf("%s[%d]", list, i), where: map[string]*yaml.Node{}}
		raw, err := c.convert(nil, node, "")
		if err != nil {
			d.faults = append(d.faults, err)
			continue
		}
		item, name, err := read(raw)
		if err == nil && name == "" {
			err = &invalid.Error{Field: "name", Reason: "is missing"}
		}
		if err != nil {
			d.faults = append(d.faults, c.blame(node, err))
			continue
		}
		if first, twice := lines[name]; twice {
			d.faults = append(d.faults, d.fault(node, c.name("name"), fmt.Sprintf(
				"%q is given twice, first in line %d", name, first,
			)))
			continue
		}
		lines[name] = node.Line
		all = append(all, item)
	}
	return all
}

func readRule(raw []byte) (rules.Rule, string, error) {
	r, err := rules.Parse(raw)
	return r, r.Name, err
}

func readQueue(raw []byte, validate func(queue string, target json.RawMessage) error) (queue.Spec, string, error) {
	spec, err := queue.ParseSpec(raw)
	if err == nil && spec.Name != "" && validate != nil && len(spec.Deliver) > 0 {
		if err = validate(spec.Name, spec.Deliver); err != nil {
			var field *invalid.Error
			if !errors.As(err, &field) {
				err = &invalid.Error{Field: "deliver", Reason: err.Error()}
			}
		}
	}
	if err != nil {
		return queue.Spec{}, "", err
	}
	deliver.Complete(&spec)
	return spec, spec.Name, nil
}

// document is a file during parsing.
type document struct {
	file   string
	faults []error
}

func (d *document) fault(n *yaml.Node, field, reason string) *Error {
	e := &Error{File: d.file, Field: field, Reason: reason}
	e.at(n)
	return e
}

func (e *Error) at(n *yaml.Node) {
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
}

// lists returns the lists of rules and queues, the only parts of a file.
func (d *document) lists(body *yaml.Node) (map[string]*yaml.Node, error) {
	if body == nil {
		return nil, &Error{File: d.file, Reason: "is empty; it must begin with \"rules:\" or \"queues:\""}
	}
	lists := map[string]*yaml.Node{}
	err := d.members(body, "", func(key string, keyNode, value *yaml.Node) error {
		if key != "rules" && key != "queues" {
			return d.fault(keyNode, key, "is not a field; the fields of the file are rules and queues")
		}
		if value.Kind != yaml.SequenceNode {
			return d.fault(keyNode, key, "must be a list of "+key+", each beginning with \"- name: ...\"")
		}
		lists[key] = value
		return nil
	})
	if err == nil && len(lists) == 0 {
		err = d.fault(body, "", "has neither rules nor queues")
	}
	return lists, err
}
