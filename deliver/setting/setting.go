// Package setting reads the settings of targets: strictly, and with errors that name the field.
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

// Headers by which receivers are told of what queue a job is, and which; every kind of target that has such a thing
// sets them.
const (
	HeaderID      = "Penstock-Id"
	HeaderQueue   = "Penstock-Queue"
	HeaderAttempt = "Penstock-Attempt"
)

// Setting is how one kind of target is told where and how to deliver.
type Setting interface {
	// Check checks a setting that Decode has read. at is its path, such as deliver.http.
	Check(at string) error
	// Accept checks a job on its arrival: what can never be delivered is refused at once. It gives a job that
	// has no cost (0) what it will cost, if that is not 1, and changes nothing else.
	Accept(job *queue.Job) error
	// OnUnknown is what a queue's on_unknown is for this target if its spec does not say.
	OnUnknown() string
}

// Hosted is a Setting that names the hosts that are connected to, so that people are told early when
// no connection will be let out to one.
type Hosted interface {
	Setting
	// Hosts returns them, that of the receiver first.
	Hosts() []Host
	// Exposes says what of the setting would show its secrets to others than the one before (nil if there was none, or
	// another kind): the field, and what is about it, to be put behind its name. Empty is nothing.
	Exposes(before Setting) (field, reason string)
	// Uses returns every text of the setting that may refer to secrets. The fields are behind the setting's path.
	Uses() []Use
}

// Sending is a Setting that says whom its jobs are sent as.
type Sending interface {
	Setting
	// Senders returns the one that it has, and patterns of those that jobs may name. The fields are behind the setting's
	// path.
	Senders() []Sender
}

// Sender is a sender, or a pattern of some, and the field that names it.
type Sender struct{ Field, Name string }

// SendersOf are those of a setting whose fields are from, empty if it has none, and allow_from.
func SendersOf(from string, allowed Patterns) (all []Sender) {
	if from != "" {
		all = append(all, Sender{"from", from})
	}
	for i, pattern := range allowed {
		all = append(all, Sender{"allow_from[" + strconv.Itoa(i) + "]", pattern})
	}
	return all
}

// Use is a text that may refer to secrets, the field that it is, and where it is sent: to all of these.
type Use struct {
	Field, Text string
	To          []Host
}

// Host is a name or an address and a port, and the field that names them.
type Host struct {
	Field, Name string
	Port        uint16
	// TLS is whether what is sent there is encrypted, to whom its certificate says.
	TLS bool
}

// HostOf is that of a URL, with the port of its scheme if it names none. Of a text that is no URL it is empty.
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

// OtherHost is what Exposes says of a setting whose receiver is not the one before.
const OtherHost = "is on another host than before"

// OtherPort is what it says of one on another port: that may be another program's, and another person's.
const OtherPort = "is on another port than before"

// Exposed says, as Hosted.Exposes does, what is about a URL that secrets go to in place of another.
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

// port is empty where it is the one of the scheme: with another scheme it is another, and what goes there is told by
// that.
func port(u *url.URL) string {
	if ordinary := map[string]string{"http": "80", "https": "443"}[u.Scheme]; u.Port() != ordinary {
		return u.Port()
	}
	return ""
}

// Error is an *invalid.Error. A value that may be a secret is left out.
func Error(at, value, reason string) error {
	if value != "" {
		value = clip.Quote(value, 80)
	}
	return &invalid.Error{Field: at, Value: value, Reason: reason}
}

// Decode reads a setting over the defaults that are in it. Unknown and repeated names are errors;
// all are *invalid.Error and show no value that may be a secret.
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

// Explain makes an *invalid.Error of one that package json, or jsondepth, had with a setting.
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
		return Error(path, "", "is not a field that is known here; known are "+strings.Join(known, ", ")+
			invalid.DidYouMean(semantic.JSONPointer.LastToken(), known))
	case semantic.GoType == reflect.TypeFor[unit.Duration]():
		return Error(path, string(semantic.JSONValue), `must be a duration such as "10s"`)
	}
	return Error(path, "", "must be "+kindOf(semantic.GoType))
}

// Path is the dotted path of a place in a setting.
func Path(at string, p jsontext.Pointer) string {
	for token := range p.Tokens() {
		at += "." + token
	}
	if len(at) > 120 {
		at = strings.ToValidUTF8(at[:120], "") + "..."
	}
	return at
}

// pathIn is Path with the items of lists as [0], as the types of what is read into tell.
func pathIn(at string, p jsontext.Pointer, into any) string {
	if into == nil {
		return Path(at, p)
	}
	t := elem(reflect.TypeOf(into))
	for token := range p.Tokens() {
		if t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 { // JSON that is not read yet is bytes
			at += "[" + token + "]"
		} else {
			at = Path(at, jsontext.Pointer("").AppendToken(token))
		}
		t = typeAt(t, jsontext.Pointer("").AppendToken(token))
	}
	return Path(at, "")
}

// typeAt is the type at a place in a struct.
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
