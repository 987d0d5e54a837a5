package rules

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue/invalid"
)

var (
	errNoText = errors.New("is an object, a list or null")
	errTwice  = errors.New("is given twice")
	errMore   = errors.New("more data follows it")
)

// ofPayload returns the text, the number as written, or the boolean at the pointer, or "" if there is no value. It
// reads the whole payload to detect repeated names, because targets differ in which of them they use. Values off the
// path are skipped without parsing their parts.
func (p keyPart) ofPayload(payload []byte) (string, error) {
	if err := jsondepth.Check(payload, jsondepth.Max); err != nil { // a payload given as bytes
		return "", invalid.Errorf(p.field, "", "cannot be read, and a rule counts by it: the payload %v", err)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(payload), jsontext.AllowDuplicateNames(true))
	v, err := at(d, p.pointer)
	if err == nil {
		_, behind := d.ReadToken()
		if errors.Is(behind, io.EOF) {
			return v, nil
		}
		err = cmp.Or(behind, errMore)
	}
	if errors.Is(err, errNoText) || errors.Is(err, errTwice) {
		return "", invalid.Errorf(p.field, "", "%v, and a rule counts by it; use one text, number, true or false", err)
	}
	return "", invalid.Errorf(
		p.field, "", "cannot be read, and a rule counts by it: the payload is not one JSON value: %v", err,
	)
}

// at reads the next value and returns the value at the path within it, or "".
func at(d *jsontext.Decoder, path []string) (string, error) {
	if len(path) == 0 {
		return scalar(d)
	}
	switch d.PeekKind() {
	case '{':
		return inObject(d, path)
	case '[':
		return inArray(d, path)
	}
	_, err := d.ReadValue()
	return "", err
}

func scalar(d *jsontext.Decoder) (string, error) {
	switch d.PeekKind() {
	case '{', '[', 'n':
		return "", errNoText
	}
	t, err := d.ReadToken()
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

func inObject(d *jsontext.Decoder, path []string) (v string, err error) {
	if _, err := d.ReadToken(); err != nil {
		return "", err
	}
	for found := false; d.PeekKind() != '}'; {
		name, err := d.ReadValue()
		if err != nil {
			return "", err
		}
		if !isName(name, path[0]) {
			if _, err := d.ReadValue(); err != nil {
				return "", err
			}
			continue
		}
		if found {
			return "", errTwice
		}
		found = true
		if v, err = at(d, path[1:]); err != nil {
			return "", err
		}
	}
	_, err = d.ReadToken()
	return v, err
}

func inArray(d *jsontext.Decoder, path []string) (v string, err error) {
	if _, err := d.ReadToken(); err != nil {
		return "", err
	}
	index, err := strconv.Atoi(path[0])
	if err != nil || strconv.Itoa(index) != path[0] {
		index = -1 // matches no element
	}
	for i := 0; d.PeekKind() != ']'; i++ {
		if i == index {
			v, err = at(d, path[1:])
		} else {
			_, err = d.ReadValue()
		}
		if err != nil {
			return "", err
		}
	}
	_, err = d.ReadToken()
	return v, err
}

// isName reports whether a member's name, as written, equals name.
func isName(written jsontext.Value, name string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1:len(written)-1]) == name
	}
	text, err := jsontext.AppendUnquote(nil, written)
	return err == nil && string(text) == name
}
