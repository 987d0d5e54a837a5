// Package setting decodes the settings of targets, strictly, and with errors that name the field.
package setting

import (
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/unit"
)

// Headers with a job's ID, queue and attempt. Every kind of target whose protocol has headers sets them.
const (
	HeaderID      = "Penstock-Id"
	HeaderQueue   = "Penstock-Queue"
	HeaderAttempt = "Penstock-Attempt"
)

// Setting is the setting of one kind of target: where and how to deliver.
type Setting interface {
	// Check checks a setting that Decode has decoded. at is its path, such as deliver.http.
	Check(at string) error
	// Accept checks a job on its arrival and refuses jobs that can never be delivered. It sets the cost of a job without
	// one (0) if that is not 1, and changes nothing else.
	Accept(job *queue.Job) error
	// OnUnknown returns the default of a queue's on_unknown for this target.
	OnUnknown() string
}

// Hosted is a Setting that names the hosts to connect to. They are checked early, before a connection is refused.
type Hosted interface {
	Setting
	// Hosts returns the hosts, the receiver's first.
	Hosts() []Host
	// Exposes returns the field that would send the setting's secrets to a less trusted place than the setting before,
	// and the reason, to follow the field's name. before is nil if there was none, or of another kind. Both results are
	// empty if no field does.
	Exposes(before Setting) (field, reason string)
	// Uses returns every text of the setting that may refer to secrets. Fields are relative to the setting.
	Uses() []Use
}

// Sending is a Setting that names the senders of its jobs.
type Sending interface {
	Setting
	// Senders returns the setting's sender, and the patterns of senders that jobs may name. Fields are relative to the
	// setting.
	Senders() []Sender
}

// Sender is a sender, or a pattern of senders, and its field.
type Sender struct{ Field, Name string }

// SendersOf returns the senders of a setting with the fields from, which may be empty, and allow_from.
func SendersOf(from string, allowed Patterns) (all []Sender) {
	if from != "" {
		all = append(all, Sender{"from", from})
	}
	for i, pattern := range allowed {
		all = append(all, Sender{"allow_from[" + strconv.Itoa(i) + "]", pattern})
	}
	return all
}

// Use is a text that may refer to secrets, its field, and the hosts to which it is sent.
type Use struct {
	Field, Text string
	To          []Host
}

// Host is a name or address, a port, and the field that names them.
type Host struct {
	Field, Name string
	Port        uint16
	// TLS means that the connection is encrypted, and the host shows a certificate for its name.
	TLS bool
}

// HostOf returns the host of a URL. The default port is that of its scheme. If the text is not a URL, Name is empty.
func HostOf(field, text string) Host {
	u, err := url.Parse(text)
	if err != nil {
		return Host{Field: field}
	}
	h := Host{Field: field, Name: u.Hostname(), Port: 80, TLS: u.Scheme == "https"}
	if h.TLS {
		h.Port = 443
	}
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		h.Port = uint16(n)
	}
	return h
}

// OtherHost is a reason of Hosted.Exposes.
const OtherHost = "is on another host than before"

// OtherPort is a reason of Hosted.Exposes: another port may be another program, of another person.
const OtherPort = "is on another port than before"

// Exposed returns the reason, as Hosted.Exposes does, why a URL is less trusted than the one before; empty if it is
// not.
func Exposed(now, before string) string {
	n, err := url.Parse(now)
	b, err2 := url.Parse(before)
	switch {
	case err != nil || err2 != nil || !strings.EqualFold(n.Hostname(), b.Hostname()):
		return OtherHost
	case port(n) != port(b):
		return OtherPort
	case n.Scheme != "https" && b.Scheme == "https":
		return "is without TLS, unlike before"
	}
	return ""
}

// port returns the port of a URL, empty for the default of its scheme: a change of scheme is reported as such.
func port(u *url.URL) string {
	if ordinary := map[string]string{"http": "80", "https": "443"}[u.Scheme]; u.Port() != ordinary {
		return u.Port()
	}
	return ""
}

// Error returns an *invalid.Error. Callers leave value empty if it may be a secret.
func Error(at, value, reason string) error {
	if value != "" {
		value = clip.Quote(value, 80)
	}
	return &invalid.Error{Field: at, Value: value, Reason: reason}
}

// Decode decodes a setting into a value with its defaults. Unknown and repeated names are errors. All errors are
// *invalid.Error and show no value that may be a secret.
func Decode(raw []byte, at string, into any) error {
	err := jsondepth.Check(raw, jsondepth.Max)
	if err == nil {
		err = json.Unmarshal(raw, into, json.RejectUnknownMembers(true))
	}
	if err != nil {
		return Explain(err, at, into)
	}
	return nil
}

// Explain converts an error of package json or jsondepth about a setting to an *invalid.Error.
func Explain(err error, at string, into any) error {
	var deep *jsondepth.Error
	if errors.As(err, &deep) {
		if deep.Field != "" {
			at += "." + deep.Field
		}
		return Error(at, "", deep.Error())
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		path := pathIn(at, syntactic.JSONPointer, into)
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return Error(path, "", "is given twice")
		}
		return Error(path, "", "is not valid JSON: "+syntactic.Err.Error())
	}
	var semantic *json.SemanticError
	if !errors.As(err, &semantic) {
		return Error(at, "", "is not valid JSON")
	}
	path := pathIn(at, semantic.JSONPointer, into)
	switch {
	case errors.Is(err, json.ErrUnknownName):
		known := namesOf(typeAt(reflect.TypeOf(into), semantic.JSONPointer.Parent()))
		return Error(path, "", "is not a field; fields are "+strings.Join(known, ", ")+
			invalid.DidYouMean(semantic.JSONPointer.LastToken(), known))
	case semantic.GoType == reflect.TypeFor[unit.Duration]():
		return Error(path, string(semantic.JSONValue), `must be a duration such as "10s"`)
	}
	if t := semantic.GoType; t != nil {
		if w, ok := reflect.Zero(elem(t)).Interface().(Wanting); ok {
			return Error(path, "", "must be "+w.Wants())
		}
	}
	return Error(path, "", "must be "+kindOf(semantic.GoType))
}

// Wanting is a part of a setting that decodes itself.
type Wanting interface {
	// Wants returns what the part must be, for errors.
	Wants() string
}

// Path returns the dotted path of a place in a setting.
func Path(at string, p jsontext.Pointer) string {
	for token := range p.Tokens() {
		at += "." + token
	}
	if len(at) > 120 {
		at = strings.ToValidUTF8(at[:120], "") + "..."
	}
	return at
}

// pathIn is like Path, but writes the items of lists as [0]. The type of into shows which items are in lists.
func pathIn(at string, p jsontext.Pointer, into any) string {
	if into == nil {
		return Path(at, p)
	}
	t := elem(reflect.TypeOf(into))
	for token := range p.Tokens() {
		if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 { // bytes are JSON that is not decoded yet
			at += "[" + token + "]"
		} else {
			at = Path(at, jsontext.Pointer("").AppendToken(token))
		}
		t = typeAt(t, jsontext.Pointer("").AppendToken(token))
	}
	return Path(at, "")
}

// typeAt returns the type at a place in a type.
func typeAt(t reflect.Type, p jsontext.Pointer) reflect.Type {
	t = elem(t)
	for token := range p.Tokens() {
		switch t.Kind() {
		case reflect.Map, reflect.Slice:
			t = elem(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if nameOf(f) == token {
					t = elem(f.Type)
					break
				}
			}
		}
	}
	return t
}

func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func nameOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func namesOf(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		if name := nameOf(f); name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func kindOf(t reflect.Type) string {
	if t == nil {
		return "of another type"
	}
	if elem(t) == reflect.TypeFor[[]byte]() {
		return "base64, such as aGVsbG8="
	}
	switch elem(t).Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a string"
}
