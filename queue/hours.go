package queue

import (
	"cmp"
	"strings"
	"unique"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Hours are OpenHours as a spec holds them: small, since most queues have none, and comparable. The zero Hours are
// always open.
type Hours struct{ of unique.Handle[OpenHours] }

// OpenHours are the times of a week at which jobs may leave.
type OpenHours struct {
	// Open are spans such as "mon-fri 08:00-20:00". Without days, a span is open every day. A span that ends before it
	// begins ends on the next day.
	Open List `json:"open,omitzero"`
	// Timezone is the IANA zone of the times and dates; empty is UTC.
	Timezone string `json:"timezone,omitempty"`
	// Closed are dates such as "2026-12-25", which are closed from midnight to midnight.
	Closed List `json:"closed,omitzero"`
}

// Hours returns the hours as a spec holds them.
func (h OpenHours) Hours() Hours {
	if h == (OpenHours{}) {
		return Hours{}
	}
	return Hours{unique.Make(h)}
}

// Rules returns the spans, the zone and the dates.
func (h Hours) Rules() (rules OpenHours) {
	if h.On() {
		return h.of.Value()
	}
	return rules
}

// MarshalJSON writes an object.
func (h Hours) MarshalJSON() ([]byte, error) { return json.Marshal(h.Rules()) }

// UnmarshalJSONFrom reads an object, as strictly as the decoder says.
func (h *Hours) UnmarshalJSONFrom(in *jsontext.Decoder) error {
	var rules OpenHours
	err := json.UnmarshalDecode(in, &rules)
	*h = given(rules)
	return err
}

// UnmarshalJSON reads an object.
func (h *Hours) UnmarshalJSON(text []byte) error {
	var rules OpenHours
	err := json.Unmarshal(text, &rules)
	*h = given(rules)
	return err
}

// given returns hours that a caller wrote. Without a span, they are not always open but an error.
func given(rules OpenHours) Hours { return Hours{unique.Make(rules)} }

// Limits of hours.
const (
	MaxHoursOpen   = 28
	MaxHoursClosed = 366
)

// hoursSettings are the settings of hours below a name; at returns them.
func hoursSettings[S any](name string, at func(*S) *Hours) []setting[S] {
	return []setting[S]{
		{
			name: name, doc: "Times at which jobs may leave.",
			check: func(s *S, field string) error {
				_, err := at(s).Schedule(field)
				return err
			},
		},
		{
			name: name + ".open", at: func(s *S) any { return new(at(s).Rules().Open) }, absent: "always",
			example: "mon-fri 08:00-20:00",
			doc: "Spans of days and times, at most 28. Examples: \"mon-fri 08:00-20:00\", \"sat,sun 10:00-24:00\"," +
				" and, for every night, \"22:00-06:00\". They must not overlap.",
		},
		{
			name: name + ".timezone", at: func(s *S) any { return new(at(s).Rules().Timezone) }, absent: "UTC",
			example: "Europe/Berlin", doc: "IANA time zone of the times and dates.",
		},
		{
			name: name + ".closed", at: func(s *S) any { return new(at(s).Rules().Closed) }, absent: "none",
			example: "2026-12-25", doc: "Dates on which nothing leaves, at most 366.",
		},
	}
}

// On reports whether there are hours.
func (h Hours) On() bool { return h != Hours{} }

// In returns the hours in a zone, if they name none.
func (h Hours) In(timezone string) Hours {
	rules := h.Rules()
	rules.Timezone = cmp.Or(rules.Timezone, timezone)
	return rules.Hours()
}

// String returns the hours as a short text, empty if there are none.
func (h Hours) String() string {
	if !h.On() {
		return ""
	}
	rules := h.Rules()
	text := strings.Join(rules.Open.All(), ", ") + " " + cmp.Or(rules.Timezone, "UTC")
	if closed := rules.Closed.All(); len(closed) > 0 {
		text += ", closed " + strings.Join(closed[:min(len(closed), 3)], ", ")
		if len(closed) > 3 {
			text += " ..."
		}
	}
	return text
}
