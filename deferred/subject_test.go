package deferred

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/names"
)

// No valid name leads to another queue's subject: it makes one or two tokens below the prefix, none of them empty or a
// wildcard.
func TestSubjectOf(t *testing.T) {
	s := newSubjects("penstock")
	for _, name := range []string{
		"email", "ses.otp", "a", "0", "a-b_c", strings.Repeat("a", 64) + "." + strings.Repeat("b", 64),
		"", ".", "a.", ".a", "a..b", "a.b.c", "*", ">", "a.*", "a.>", "*.a", ">.a", "A", "ä", "a b", "a\tb", "a\r\nb",
		"a\x00", "$JS", "$JS.API.STREAM.DELETE.X",
		"_", "_INBOX.a", "-", strings.Repeat("a", 65), "a." + strings.Repeat("b", 65), "penstock.deferred.a", "a/b", "a\\b",
	} {
		checkSubject(t, s, name)
	}
}

func FuzzSubjectOf(f *testing.F) {
	for _, name := range []string{"email", "ses.otp", "a.>", "*", "$JS.API", "a..b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) { checkSubject(t, newSubjects("penstock"), name) })
}

func checkSubject(t *testing.T, s subjects, name string) {
	t.Helper()
	subject := s.of(name)
	back, ok := s.queueOf(subject)
	if ok != (names.Validate(name) == nil) {
		t.Errorf("%q: is a queue's: %v", name, ok)
	}
	if !ok {
		if dead := s.deadOf(subject); dead != "penstock.dead._" {
			t.Errorf("%q: dead letters on %q", name, dead)
		}
		return
	}
	if back != name || s.deadOf(subject) != "penstock.dead."+name {
		t.Errorf("%q became %q and %q", name, back, s.deadOf(subject))
	}
	tokens := strings.Split(subject, ".")
	if len(tokens) < 3 || len(tokens) > 4 || tokens[0] != "penstock" || tokens[1] != "deferred" || !addressable(subject) {
		t.Errorf("%q has subject %q", name, subject)
	}
	for _, token := range tokens {
		if token == "" || strings.ContainsAny(token, "*> \t\r\n$\x00") {
			t.Errorf("%q has subject %q", name, subject)
		}
	}
}

// A subject outside the prefix belongs to no queue.
func TestQueueOfOthers(t *testing.T) {
	s := newSubjects("penstock")
	for _, subject := range []string{
		"", "penstock", "penstock.deferred", "penstock.deferred.", "penstock.dead.a", "other.deferred.a",
		"penstock.deferred.a.b.c", "penstock.deferred.A",
	} {
		if name, ok := s.queueOf(subject); ok {
			t.Errorf("%q is of %q", subject, name)
		}
	}
}

func TestAddressable(t *testing.T) {
	for subject, want := range map[string]bool{
		"a.b": true, "a.b*": true, "a.*": false, "a.>": false, "*": false, "a.*.b": false,
	} {
		if addressable(subject) != want {
			t.Errorf("%q: %v", subject, !want)
		}
	}
}
