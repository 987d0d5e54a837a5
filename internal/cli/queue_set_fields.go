package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

// inShort is what the table of settings says of one, in a sentence.
func inShort(name string) string {
	all := queue.Settings()
	i := slices.IndexFunc(all, func(s queue.Setting) bool { return s.Name == name })
	return sentence(&all[i])
}

func sentence(s *queue.Setting) string {
	first, _, _ := strings.Cut(s.Doc, ". ")
	return strings.TrimSuffix(first, ".") + "."
}

// fieldOf is how a setting is written in FIELD=VALUE; "" if it is not, because others are within it.
func fieldOf(s *queue.Setting) string {
	switch {
	case s.Name == "name":
		return ""
	case s.Name == "deliver":
		return "deliver.http.url"
	case s.Name == "rules":
		return "rules.0"
	case s.Type == "object" || s.Type == "list":
		return ""
	}
	return strings.Replace(s.Name, "[]", ".0", 1)
}

// fieldList is a list of all fields for the help.
func fieldList() string {
	var list strings.Builder
	for _, s := range queue.Settings() {
		if field := fieldOf(&s); field != "" {
			fmt.Fprintf(&list, "  %-24s %s\n", field, sentence(&s))
		}
	}
	return list.String()
}

// fieldCandidates are what the beginning of FIELD=VALUE may become.
func fieldCandidates(begun string) (found []candidate) {
	name, _, valued := strings.Cut(begun, "=")
	for _, s := range queue.Settings() {
		field := fieldOf(&s)
		if !valued && field != "" && strings.HasPrefix(field, begun) {
			found = append(found, candidate{word: field + "=", help: sentence(&s)})
		}
		if !valued || field != name {
			continue
		}
		values := s.Values
		if s.Type == "boolean" {
			values = []string{"true", "false"}
		}
		for _, v := range values {
			if word := field + "=" + v; strings.HasPrefix(word, begun) {
				found = append(found, candidate{word: word})
			}
		}
	}
	return found
}

// laneFields are the settings that a lane may have of its own.
func laneFields() (names []string) {
	for _, s := range queue.Settings() {
		if name, ok := strings.CutPrefix(s.Name, "lanes."); ok && s.Type != "object" {
			names = append(names, name)
		}
	}
	return names
}
