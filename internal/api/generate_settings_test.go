package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// withSettings writes what the table of settings says into the schemas of a queue. What the table does not know of a
// schema, such as a pattern, stays as it is written there.
func withSettings(t *testing.T, text string) string {
	t.Helper()
	doc := parsed(t, []byte(text))
	schemas := doc.at("components").at("schemas")
	spec, changed := schemas.at("Spec"), schemas.at("ChangedQueue").at("properties")
	for _, s := range queue.Settings() {
		path := strings.Split(s.Name, ".")
		schema := schemas.at("LaneRule").at("properties")
		switch {
		case strings.HasPrefix(s.Name, "limits[]."):
			schema = schemas.at("Limit")
			for _, name := range path[1:] {
				schema = schema.at("properties").at(name)
			}
		case path[0] == "estimate" && len(path) > 1: // estimate.UNIT.SETTING
			of := spec.at("properties").at("estimate").at("additionalProperties")
			of.set("type", "object")
			of.set("additionalProperties", false)
			if s.Required {
				of.require(path[2])
			}
			schema = of.at("properties").at(path[2])
		case path[0] == "hours" && len(path) > 1:
			schema = schemas.at("Hours").at("properties").at(path[1])
		case strings.HasPrefix(s.Name, "lanes.limits[]."):
			of := schema.at("limits").at("items")
			of.set("type", "object")
			of.set("additionalProperties", false)
			if s.Required {
				of.require(path[2])
			}
			schema = of.at("properties").at(path[2])
		case path[0] == "lanes" && len(path) > 1 && s.Type != "object":
			schema = schema.at(path[1])
			spec.at("properties").at("lanes").at("properties").at(path[1]).set(
				"$ref", "#/components/schemas/LaneRule/properties/"+path[1],
			)
		default:
			schema = spec
			for i, name := range path {
				if i > 0 && s.Required {
					schema.require(name)
				}
				schema = schema.at("properties").at(name)
			}
			changed.at(path[0]).set("$ref", "#/components/schemas/Spec/properties/"+path[0])
		}
		if s.Name == "hours" {
			schema.set("$ref", "#/components/schemas/Hours")
			schema.set("description", s.Doc)
		} else if s.Name != "name" && s.Name != "deliver" { // of which more is to be said to those who call the API
			describe(t, schema, &s)
		}
	}
	var out bytes.Buffer
	if err := doc.write(jsontext.NewEncoder(&out, jsontext.WithIndent("  "))); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// describe writes what a row of the table says into a schema.
func describe(t *testing.T, schema *object, s *queue.Setting) {
	t.Helper()
	types := map[string]string{
		"text": "string", "duration": "string", "rate": "string", "quota": "string", "list": "array", "size": "",
		"hours": "",
	}
	typ, other := types[s.Type]
	if !other {
		typ = s.Type
	}
	if s.Type == "size" {
		schema.set("$ref", "#/components/schemas/Bytes")
	} else if s.Type == "hours" {
		if schema.values["type"] == nil { // readmit_between may also be a string
			schema.set("$ref", "#/components/schemas/Hours")
		}
	} else if schema.values["$ref"] == nil {
		schema.set("type", typ)
	}
	if s.Type == "object" && schema.values["additionalProperties"] == nil {
		schema.set("additionalProperties", false)
	}
	doc, initial := s.Doc, s.Default
	if s.Type == "duration" || s.Type == "size" {
		doc += " From " + s.Min + " to " + s.Max + "."
	}
	switch _, err := strconv.ParseInt(s.Absent, 10, 64); {
	case err == nil:
		initial = s.Absent
	case s.Absent != "":
		doc += " Default: " + s.Absent + "."
	}
	switch s.Type {
	case "integer":
		least := s.Min
		if least == "" {
			least = "1"
		}
		schema.set("minimum", json.Number(least))
		if s.Max != "" {
			schema.set("maximum", json.Number(s.Max))
		}
	case "number":
		schema.set("exclusiveMinimum", json.Number(s.Min))
		schema.set("exclusiveMaximum", json.Number(s.Max))
	}
	if most, err := unit.ParseBytes(s.Max); s.Type == "size" && err == nil {
		schema.set("maximum", int64(most))
	}
	if s.Values != nil {
		schema.set("enum", s.Values)
	}
	if initial != "" {
		var v any = initial
		if slices.Contains([]string{"integer", "number", "boolean"}, s.Type) {
			v = json.RawMessage(initial)
		}
		schema.set("default", v)
	}
	if s.Example != "" && schema.values["examples"] == nil {
		schema.set("examples", []string{s.Example})
	}
	schema.set("description", doc)
}

// object is a JSON object whose members keep their order.
type object struct {
	names  []string
	values map[string]any // an *object, or a jsontext.Value
}

func parsed(t *testing.T, text []byte) *object {
	t.Helper()
	o := &object{values: map[string]any{}}
	in := jsontext.NewDecoder(bytes.NewReader(text))
	_, err := in.ReadToken()
	for err == nil && in.PeekKind() != '}' {
		var name jsontext.Token
		var value jsontext.Value
		if name, err = in.ReadToken(); err != nil {
			break
		}
		key := name.String()
		if value, err = in.ReadValue(); err != nil {
			break
		}
		o.names = append(o.names, key)
		if value = value.Clone(); value.Kind() == '{' {
			o.values[key] = parsed(t, value)
		} else {
			o.values[key] = value
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// at returns the object that is a member, and makes it if there is none.
func (o *object) at(name string) *object {
	if below, ok := o.values[name].(*object); ok {
		return below
	}
	below := &object{values: map[string]any{}}
	o.names, o.values[name] = append(o.names, name), below
	return below
}

func (o *object) set(name string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	if _, there := o.values[name]; !there {
		o.names = append(o.names, name)
	}
	o.values[name] = jsontext.Value(text)
}

// require puts a name on the list of those that must be given.
func (o *object) require(name string) {
	var names []string
	if list, ok := o.values["required"].(jsontext.Value); ok {
		if err := json.Unmarshal(list, &names); err != nil {
			panic(err)
		}
	}
	if !slices.Contains(names, name) {
		o.set("required", append(names, name))
	}
}

func (o *object) write(out *jsontext.Encoder) error {
	err := out.WriteToken(jsontext.BeginObject)
	for _, name := range o.names {
		if err == nil {
			err = out.WriteToken(jsontext.String(name))
		}
		switch v := o.values[name].(type) {
		case *object:
			if err == nil {
				err = v.write(out)
			}
		case jsontext.Value:
			if err == nil {
				err = out.WriteValue(v)
			}
		}
	}
	if err != nil {
		return err
	}
	return out.WriteToken(jsontext.EndObject)
}
