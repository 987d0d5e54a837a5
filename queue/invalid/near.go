package invalid

import (
	"reflect"
	"slices"
	"strings"
)

// DidYouMean returns a suffix for an error about an unknown name: the most similar known name, or "" if none is
// similar.
func DidYouMean(name string, known []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, k := range known {
		if d := distance(strings.ToLower(name), strings.ToLower(k), least); k != name && d < least {
			best, least = k, d
		}
	}
	if best == "" {
		return ""
	}
	return "; did you mean " + best + "?"
}

// Members returns the names of the JSON members of a struct, sorted; none for other types.
func Members(t reflect.Type) (names []string) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for f := range t.Fields() {
		switch name, _, _ := strings.Cut(f.Tag.Get("json"), ","); {
		case name == "" && f.Anonymous:
			names = append(names, Members(f.Type)...)
		case name != "" && name != "-":
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// distance returns how many insertions, deletions, replacements and swaps of neighboring bytes turn a into b, at most
// most.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			replaced := rows[i-1][j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			rows[i][j] = min(replaced, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return min(rows[len(a)][len(b)], most)
}
