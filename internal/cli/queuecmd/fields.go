package queuecmd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

// settingDoc returns the first sentence about a setting.
func settingDoc(name string) string {
	all := queue.Settings()
	i := slices.IndexFunc(all, func(s queue.Setting) bool { return s.Name == name })
	return sentence(&all[i])
}

func sentence(s *queue.Setting) string {
	first, _, _ := strings.Cut(s.Doc, ". ")
	return strings.TrimSuffix(first, ".") + "."
}

// fieldOf returns the field of a setting in FIELD=VALUE; empty if only its parts can be set.
func fieldOf(s *queue.Setting) string {
	switch {
	case s.Name == "name":
		return ""
	case s.Name == "deliver":
		return "deliver.http.url"
	case s.Name == "rules":
		return "rules.0"
	case s.Name == "hours.open" || s.Name == "hours.closed":
		return s.Name + ".0"
	case s.Name == "lanes.hours":
		return "lanes.hours.open.0"
	case s.Type == "object" || s.Type == "list":
		return ""
	}
	return strings.Replace(s.Name, "[]", ".0", 1)
}

// fieldList lists all fields for the help.
func fieldList() string {
	var list strings.Builder
	for _, s := range queue.Settings() {
		if field := fieldOf(&s); field != "" {
			fmt.Fprintf(&list, "  %-24s %s\n", field, sentence(&s))
		}
	}
	return list.String()
}

// CompleteSetting passes to add each completion of FIELD=VALUE with its help.
func CompleteSetting(prefix string, add func(word, help string)) {
	name, _, valued := strings.Cut(prefix, "=")
	for _, s := range queue.Settings() {
		field := fieldOf(&s)
		if !valued && field != "" && strings.HasPrefix(field, prefix) {
			add(field+"=", sentence(&s))
		}
		if !valued || field != name {
			continue
		}
		values := s.Values
		if s.Type == "boolean" {
			values = []string{"true", "false"}
		}
		for _, v := range values {
			if word := field + "=" + v; strings.HasPrefix(word, prefix) {
				add(word, "")
			}
		}
	}
}
