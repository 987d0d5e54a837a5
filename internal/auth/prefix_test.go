package auth

import "testing"

func TestWithin(t *testing.T) {
	for _, c := range []struct {
		prefix, name string
		want         bool
	}{
		{"acme-*", "acme-mail", true},
		{"acme-*", "acme-mail.otp", true},
		{"acme-*", "acme-", true},
		{"acme-*", "acme", false},
		{"acme-*", "acme.mail", false},
		{"acme-*", "acmee-mail", false},
		{"acme-*", "other.acme-mail", false}, // a child of a foreign parent
		{"ses.otp", "ses.otp", true},
		{"ses.otp", "ses.otp.x", false}, // no name
		{"ses.otp", "ses", false},
		{"ses.otp", "ses.otps", false},
		{"ses.otp", "ses.mail", false},
		{"acme", "acme", true},
		{"acme", "acme.otp", true},
		{"acme", "acme-otp", false},
		{"acme", "acmee.otp", false},
		{"acme", "other.acme", false},
		{"ses.acme-*", "ses.acme-otp", true},
		{"ses.acme-*", "ses.other", false},
		{"acme.*", "acme.otp", true},
		{"acme.*", "acme", false},
		{"*", "whatever.there-is", true},

		// What looks like a name is none.
		{"acme-*", "ACME-mail", false},
		{"acme-*", "Acme-mail", false},
		{"acme-*", "acme-Mail", false},
		{"acme-*", "acme-m\u0430il", false},         // Cyrillic a
		{"acme-*", "\u0430cme-mail", false},         // the same, where it begins
		{"acme-*", "acme\u2010mail", false},         // another hyphen
		{"acme-*", "acme-mail\u200b", false},        // not seen
		{"acme-*", "\uff41cme-mail", false},         // full width
		{"acme-*", "acme-a\u0301", false},           // combining
		{"acme-*", "acme%2dmail", false},            // not decoded
		{"acme-*", "acme-mail%2eotp", false},        // likewise
		{"acme-*", "acme-mail.", false},             // a dot at the end
		{"acme-*", "acme-mail..otp", false},         // two
		{"acme-*", "acme-mail.otp.x", false},        // one too many
		{"acme-*", "acme-../other", false},          // another place
		{"acme-*", "acme-mail/../../other", false},  // likewise
		{"acme-*", "acme-mail\x00", false},          // a byte that C ends at
		{"acme-*", "acme-mail ", false},             // a space
		{"acme-*", " acme-mail", false},             // likewise
		{"acme", "acme\uff0eotp", false},            // another dot
		{"acme", "acme.", false},                    // a child without a name
		{"acme", "", false},                         // nothing
		{"*", "", false},                            // likewise
		{"acme-*", "acme-\u212aelvin", false},       // K that is lower-cased to k
		{"acme-*", "acme-\u0131", false},            // i without its dot
		{"acme-*", "acme-mail\u202eliam", false},    // written backwards
		{"acme-*", "acme-\xff", false},              // not UTF-8
		{"acme-*", "acme-mail;drop", false},         // a path parameter
		{"acme-*", "acme-*", false},                 // the prefix itself
		{"acme", "acme.*", false},                   // likewise
		{"acme-*", "acme-" + string(long()), false}, // too long
	} {
		a := &App{Prefixes: []string{c.prefix}}
		if got := a.owns(c.name); got != c.want {
			t.Errorf("%q of %q: %v, want %v", c.name, c.prefix, got, c.want)
		}
	}
}

func long() []byte {
	b := make([]byte, 65)
	for i := range b {
		b[i] = 'a'
	}
	return b
}

func TestCoversAndOverlap(t *testing.T) {
	for _, c := range []struct {
		outer, inner    string
		covers, overlap bool
	}{
		{"acme-*", "acme-*", true, true},
		{"acme-*", "acme-mail", true, true},
		{"acme-*", "acme-mail*", true, true},
		{"acme-*", "acme-mail.otp", true, true},
		{"acme-mail*", "acme-*", false, true},
		{"acme-mail", "acme-*", false, true},
		{"acme-*", "acme", false, false},
		{"acme-*", "beta-*", false, false},
		{"acme", "acme", true, true},
		{"acme", "acme.otp", true, true},
		{"acme", "acme.*", true, true},
		{"acme", "acme.o*", true, true},
		{"acme", "acme*", false, true},
		{"acme", "acme-*", false, false},
		{"acme.otp", "acme", false, true},
		{"ses.otp", "ses.otp", true, true},
		{"ses.otp", "ses.mail", false, false},
		{"ses.otp", "ses.*", false, true},
		{"*", "anything", true, true},
		{"*", "any*", true, true},
		{"*", "*", true, true},
		{"any*", "*", false, true},
	} {
		if got := covers(c.outer, c.inner); got != c.covers {
			t.Errorf("%q covers %q: %v", c.outer, c.inner, got)
		}
		if got := overlap(c.outer, c.inner); got != c.overlap {
			t.Errorf("%q overlaps %q: %v", c.outer, c.inner, got)
		}
		if overlap(c.outer, c.inner) != overlap(c.inner, c.outer) {
			t.Errorf("%q and %q: overlap depends on their order", c.outer, c.inner)
		}
	}
}

func TestValidatePrefix(t *testing.T) {
	for _, p := range []string{"a", "acme", "acme-*", "acme*", "acme.*", "ses.otp", "ses.o*", "a_*"} {
		if err := ValidatePrefix("prefixes[0]", p); err != nil {
			t.Error(err)
		}
	}
	for _, p := range []string{
		"", "*", "**", "acme-**", "*acme", "ac*me", "-*", "_*", "-acme", "Acme-*", "acme..*", "a.b.*", ".*", "acme-%2a",
		"acme-\u0430*", "acme.", "acme *", "acme/*", "a.-*",
	} {
		if err := ValidatePrefix("prefixes[0]", p); err == nil {
			t.Errorf("%q is a prefix", p)
		}
	}
}
