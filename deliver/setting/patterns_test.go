package setting

import "testing"

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"a", "a", true},
		{"a", "A", true},
		{"a", "ab", false},
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "a", true},
		{"a*", "ab", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*a", "a", false}, // one a is not two
		{"a*a", "aa", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"*b*b*", "b", false},
		{"*b*b*", "abcb", true},
		{"email:*", "email:send", true},
		{"email:*", "admin:email:send", false},
	} {
		if (Patterns{"never", c.pattern}).Match(c.text) != c.want {
			t.Errorf("%s means %s: not %v", c.pattern, c.text, c.want)
		}
	}
	if (Patterns{}).Match("") {
		t.Error("no pattern means something")
	}
}
