package config

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue/invalid"
)

// converter converts the YAML of one rule or queue to JSON. It records the position of each field, so that errors in
// the JSON can name the line of the file.
type converter struct {
	*document
	prefix string
	where  map[string]*yaml.Node
}

func (c *converter) convert(out []byte, n *yaml.Node, path string) ([]byte, error) {
	switch {
	case n.Style&yaml.TaggedStyle != 0:
		return nil, c.fault(
			n, c.name(path), "has a tag, "+clip.Quote(n.Tag, 40)+", which is not supported: write the value without it",
		)
	case n.Anchor != "" || n.Kind == yaml.AliasNode:
		return nil, c.fault(n, c.name(path), "has an anchor or is an alias, which is not supported: write out the value")
	case n.Kind == yaml.MappingNode:
		return c.mapping(out, n, path)
	case n.Kind == yaml.SequenceNode:
		out = append(out, '[')
		for i, v := range n.Content {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = c.convert(out, v, join(path, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
		return append(out, ']'), nil
	}
	return c.scalar(out, n, path)
}

func (c *converter) scalar(out []byte, n *yaml.Node, path string) ([]byte, error) {
	switch n.ShortTag() {
	case "!!null":
		return append(out, "null"...), nil
	case "!!int", "!!float", "!!bool":
		var v any
		err := n.Decode(&v)
		if err == nil {
			var b []byte
			if b, err = json.Marshal(v); err == nil {
				return append(out, b...), nil
			}
		}
		return nil, c.fault(
			n, c.name(path), clip.Quote(n.Value, 40)+" is not a supported number",
		)
	}
	return text(out, n.Value), nil
}

func (c *converter) mapping(out []byte, n *yaml.Node, path string) ([]byte, error) {
	out = append(out, '{')
	first := true
	err := c.members(n, c.name(path), func(key string, keyNode, value *yaml.Node) error {
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

// members calls f for each member of a mapping. It refuses repeated keys.
func (d *document) members(n *yaml.Node, field string, f func(key string, keyNode, value *yaml.Node) error) error {
	if n.Kind != yaml.MappingNode {
		return d.fault(n, field, "must be a mapping, as in \"queues:\"")
	}
	seen := make(map[string]bool, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.ShortTag() != "!!str" || k.Style&yaml.TaggedStyle != 0 {
			return d.fault(k, field, "has the key "+clip.Quote(k.Value, 40)+", which is not a plain name")
		}
		if seen[k.Value] {
			return d.fault(k, join(field, k.Value), "is given twice")
		}
		seen[k.Value] = true
		if err := f(k.Value, k, v); err != nil {
			return err
		}
	}
	return nil
}

// blame returns err with the position of its field in the file, or of the nearest enclosing value.
func (c *converter) blame(node *yaml.Node, err error) error {
	var field *invalid.Error
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
	if name == "spec" || name == "rule" { // the whole item
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
	if err != nil { // unreachable: every string can be encoded
		return append(out, `""`...)
	}
	return append(out, b...)
}
