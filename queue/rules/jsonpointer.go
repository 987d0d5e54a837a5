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
	errMore   = errors.New("something stands behind it")
)

// ofPayload is the text, number as it is written, or truth at the pointer; "" if there is none such. The whole
// payload is looked at, for a name may be given twice, and which of them a target goes by is its own affair; but what
// is not on the way is skipped and not taken apart.
func (p keyPart) ofPayload(payload []byte) (string, error) {
	if err := jsondepth.Check(payload, jsondepth.Max); err != nil { // one that came as bytes
		return "", invalid.Errorf(p.field, "", "cannot be found, for the payload %v, and a rule counts by it", err)
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
		return "", invalid.Errorf(p.field, "", "%v, and a rule counts by it; give one text, number, true or false", err)
	}
	return "", invalid.Errorf(
		p.field, "", "cannot be found, for the payload is not one JSON value, and a rule counts by it: %v", err,
	)
}

// at reads the next value and returns what is in it at the path, "" if nothing is.
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
		index = -1 // no list has one
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

// isName reports whether a member's name, as it is written, is this one.
func isName(written jsontext.Value, name string) bool {
	if bytes.IndexByte(written, '\\') < 0 {
		return string(written[1:len(written)-1]) == name
	}
	text, err := jsontext.AppendUnquote(nil, written)
	return err == nil && string(text) == name
}
