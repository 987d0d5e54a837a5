package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock/penstock/queue"
)

// maxDepth is how deep the settings of a rule or queue may be nested.
const maxDepth = 64

// converter writes the YAML of one rule or queue as JSON and remembers where each field
// stood, so that what is wrong with the JSON can be told in terms of the file.
type converter struct {
	*document
	prefix string
	where  map[string]ast.Node
	depth  int
}

func (c *converter) convert(out []byte, n ast.Node, path string) ([]byte, error) {
	if c.depth++; c.depth > maxDepth {
		return nil, c.fault(n, c.name(path), fmt.Sprintf("is nested deeper than %d levels", maxDepth))
	}
	defer func() { c.depth-- }()
	switch n := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return c.mapping(out, n, path)
	case *ast.SequenceNode:
		out = append(out, '[')
		for i, v := range n.Values {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = c.convert(out, v, join(path, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	case *ast.StringNode:
		return text(out, n.Value), nil
	case *ast.LiteralNode:
		return text(out, n.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		b, err := json.Marshal(n.(ast.ScalarNode).GetValue())
		if err != nil {
			return nil, c.fault(n, c.name(path), "is not a number that can be used")
		}
		return append(out, b...), nil
	case *ast.NullNode, nil:
		return append(out, "null"...), nil
	}
	return nil, c.fault(n, c.name(path), "is "+strings.ToLower(n.Type().String())+", which is not supported here: write the value out")
}

func (c *converter) mapping(out []byte, n ast.Node, path string) ([]byte, error) {
	out = append(out, '{')
	first := true
	err := c.members(n, c.name(path), func(key string, keyNode, value ast.Node) error {
		if !first {
			out = append(out, ',')
		}
		first = false
		p := join(path, key)
		c.where[p] = keyNode
		var err error
		out, err = c.convert(append(text(out, key), ':'), value, p)
		return err
	})
	return append(out, '}'), err
}

// members calls f for each member of a mapping and refuses repeated keys.
func (d *document) members(n ast.Node, field string, f func(key string, keyNode, value ast.Node) error) error {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	default:
		return d.fault(n, field, "must be a mapping, as in \"queues:\"")
	}
	seen := map[string]bool{}
	for _, v := range values {
		s, ok := v.Key.(*ast.StringNode)
		if !ok {
			return d.fault(v.Key, field, "has the key "+queue.Shorten(v.Key.String(), 40)+", which is not a plain name")
		}
		if seen[s.Value] {
			return d.fault(v.Key, join(field, s.Value), "is given twice")
		}
		seen[s.Value] = true
		if err := f(s.Value, v.Key, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// blame finds where in the file the field of an error stands, or the nearest
// thing around it that does.
func (c *converter) blame(node ast.Node, err error) error {
	var field *queue.FieldError
	if !errors.As(err, &field) {
		return c.fault(node, c.prefix, err.Error())
	}
	for path := field.Field; path != ""; {
		if n := c.where[path]; n != nil {
			node = n
			break
		}
		path = path[:max(strings.LastIndexByte(path, '.'), 0)]
	}
	reason := field.Reason
	if field.Value != "" && field.Value != `""` {
		reason = field.Value + ": " + reason
	}
	name := field.Field
	if name == "spec" || name == "rule" { // all of it
		name = ""
	}
	return c.fault(node, c.name(name), reason)
}

func (c *converter) name(path string) string {
	if path == "" {
		return c.prefix
	}
	return c.prefix + "." + path
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// text appends a JSON string.
func text(out []byte, s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // not reached: every string can be written
		return append(out, `""`...)
	}
	return append(out, b...)
}
