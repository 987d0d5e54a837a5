package queue

import (
	"encoding/json"
	"strings"
)

// List is a list of texts, none of which has a line break. Unlike a slice it can be compared, so specs can.
type List string

// ListOf returns a list of texts.
func ListOf(texts ...string) List { return List(strings.Join(texts, "\n")) }

// All returns the texts; nil if there are none.
func (l List) All() []string {
	if l == "" {
		return nil
	}
	return strings.Split(string(l), "\n")
}

// MarshalJSON writes a list of strings.
func (l List) MarshalJSON() ([]byte, error) { return json.Marshal(append([]string{}, l.All()...)) }

// UnmarshalJSON reads a list of strings.
func (l *List) UnmarshalJSON(text []byte) error {
	var texts []string
	if err := json.Unmarshal(text, &texts); err != nil {
		return err
	}
	for i, s := range texts {
		texts[i] = strings.Join(strings.Fields(s), " ")
		if texts[i] == "" {
			texts[i] = " " // an error, which its owner reports
		}
	}
	*l = ListOf(texts...)
	return nil
}
