package queue

import (
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/queue/invalid"
)

// Schedule returns the hours in which deferred jobs return; nil is always. Its error is an *invalid.Error.
func (d *Deferral) Schedule() (*Schedule, error) {
	const field = "deferred.readmit_between"
	h, open := d.ReadmitBetween.Hours, field+".open"
	if d.ReadmitBetween.isSpan() {
		open = field
	}
	switch {
	case d.Timezone == "":
		return h.schedule(field, open, field+".timezone")
	case !h.On():
		return nil, invalid.Errorf("deferred.timezone", d.Timezone, "has no effect without deferred.readmit_between")
	case h.Rules().Timezone != "":
		return nil, invalid.Errorf("deferred.timezone", d.Timezone, "is given beside %s.timezone; leave it out", field)
	}
	return h.In(d.Timezone).schedule(field, open, "deferred.timezone")
}

// ReadmitHours are Hours that may also be written as a single span, "22:00-06:00".
type ReadmitHours struct{ Hours }

// ReadmitIn returns the hours of a single span, such as "22:00-06:00".
func ReadmitIn(span string) ReadmitHours { return ReadmitHours{OpenHours{Open: ListOf(span)}.Hours()} }

func (h ReadmitHours) isSpan() bool {
	rules := h.Rules()
	return len(rules.Open.All()) == 1 && rules == OpenHours{Open: rules.Open}
}

// MarshalJSON writes a single span as a string, and other hours as an object.
func (h ReadmitHours) MarshalJSON() ([]byte, error) {
	if h.isSpan() {
		return json.Marshal(string(h.Rules().Open))
	}
	return json.Marshal(h.Hours)
}

// UnmarshalJSONFrom reads either form.
func (h *ReadmitHours) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	if in.PeekKind() != '"' {
		return json.UnmarshalDecode(in, &h.Hours)
	}
	var text string
	if err := json.UnmarshalDecode(in, &text); err != nil {
		return err
	}
	*h = ReadmitIn(strings.Join(strings.Fields(text), " "))
	return nil
}

// UnmarshalJSON reads either form.
func (h *ReadmitHours) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, (*readmitHours)(h))
}

type readmitHours ReadmitHours

// UnmarshalJSONFrom reads either form.
func (h *readmitHours) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	return (*ReadmitHours)(h).UnmarshalJSONFrom(in)
}
