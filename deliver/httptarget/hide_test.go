package httptarget

import (
	"testing"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

func TestAnswersEchoNoSecrets(t *testing.T) {
	target := &Target{
		URL:     "https://user:hunter2@a.example/send?key=s3cr%20et&n=1",
		Headers: map[string]string{"Authorization": "Bearer t0ken", "X-Short": "a"},
	}
	job := &drain.Job{Reservation: queue.Reservation{Job: queue.Job{Headers: map[string]string{"X-Tenant": "tenant-7"}}}}
	for text, want := range map[string]string{
		"":                                    "",
		"try again later":                     "try again later",
		"no Authorization: Bearer t0ken here": "no Authorization: *** here",
		"token t0ken is unknown":              "token *** is unknown",
		"key s3cr%20et, that is s3cr et":      "key ***, that is ***",
		"tenant-7 has no a":                   "*** has no a",
		`{"got": "\u00740ken"}`:               `{"got": "***"}`,
		"got t%30ken, Bearer%20t0ken":         "got ***, ***",
		"got dDBrZW4= or VTp0MGtlbg":          "got *** or ***",
	} {
		if got := hide(text, job, target); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
