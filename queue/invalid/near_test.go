package invalid_test

import (
	"testing"

	"github.com/penstock/penstock/queue/invalid"
)

func TestDidYouMean(t *testing.T) {
	known := []string{"email", "sms", "sms.otp", "invoices-eu", "invoices-us"}
	for name, want := range map[string]string{
		"emial": "email", "Email": "email", "smss": "sms", "sms.opt": "sms.otp", "invoices_eu": "invoices-eu",
		"email": "", "push": "", "x": "", "": "", "invoices": "",
	} {
		if want != "" {
			want = "; did you mean " + want + "?"
		}
		if got := invalid.DidYouMean(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
