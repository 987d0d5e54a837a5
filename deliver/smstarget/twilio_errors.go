package smstarget

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/internal/clip"
)

const (
	mendCredentials = "check account, auth_token, api_key and api_secret in deliver.sms" //nolint:gosec // no credentials
	mendSender      = "check from and messaging_service in deliver.sms"
)

// meaning is what an error means beyond this text. The zero meaning is that the text is refused.
type meaning struct {
	// The queue is throttled until Retry-After, or without it for longer each time.
	busy   bool
	pause  time.Duration // how long the queue is throttled without Retry-After
	again  time.Duration // how long until only this text is retried
	mend   string        // what must be done before any text of the queue can be sent
	sender bool          // only this job is affected if it names its own sender
}

// twilioErrors are the errors that are not about the text itself: https://www.twilio.com/docs/api/errors. All others
// are permanent, such as 21211 (not a number), 21408 (no permission for the country), 21610 (unsubscribed) and 21614
// (not a mobile).
var twilioErrors = map[int]meaning{
	20429: {busy: true},              // too many requests
	21611: {pause: 30 * time.Second}, // the sender's queue is full
	30001: {pause: 30 * time.Second}, // queue overflow
	30022: {pause: 5 * time.Second},  // rate limit of a US campaign
	30023: {pause: 10 * time.Minute}, // daily limit of a US brand
	63018: {busy: true},              // rate limit of a channel
	63038: {pause: 10 * time.Minute}, // daily limit of the account

	14107: {again: 30 * time.Second}, // too many between two numbers

	20003: {mend: mendCredentials}, // authentication
	20005: {mend: "the account is not active"},
	20404: {mend: "check url and account in deliver.sms"}, // no such resource
	30002: {mend: "the account is suspended"},
	21603: {mend: mendSender},               // no sender
	21212: {mend: mendSender, sender: true}, // the sender is no number
	21606: {mend: mendSender, sender: true}, // it is not the account's
	21659: {mend: mendSender, sender: true}, // it is not Twilio's
	21660: {mend: mendSender, sender: true}, // it is another account's
	21701: {mend: mendSender},               // no such service
	21703: {mend: mendSender},               // the service has no numbers
	21704: {mend: mendSender},               // it has none that would do
	21705: {mend: mendSender},               // its SID is not valid
}

// retryAt returns when to retry: as the answer's Retry-After says, or without it after the given time. The result is
// zero if that time is 0. If the wait that the answer asked for was shortened, the returned error says so.
func retryAt(err error, a *httptarget.Answer, after time.Duration) (error, time.Time) { //nolint:staticcheck // as args
	now := time.Now()
	if w, ok := httptarget.RetryAfter(a.Header, now); ok {
		if w.Shortened {
			err = fmt.Errorf("%w%s", err, w.Note())
		}
		return err, now.Add(w.For)
	}
	if after == 0 {
		return err, time.Time{}
	}
	return err, now.Add(after)
}

// excerpt returns the beginning of an answer, without secrets, after a colon; or nothing if there is no text to show.
func (t *twilio) excerpt(body []byte) string {
	text := clip.Text(printable(t.hide(string(body[:min(len(body), 4*excerptBytes)]))), excerptBytes)
	if text == "" {
		return ""
	}
	return ": " + text
}

// hide hides the credentials in a provider's answer: some providers echo the request.
func (t *twilio) hide(text string) string {
	return secrets.NewHider(t.secrets...).Hide(text)
}

func printable(text string) string {
	return strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text)), " ")
}
