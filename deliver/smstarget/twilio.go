package smstarget

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/clip"
)

const (
	twilioPath   = "/2010-04-01/Accounts/"
	excerptBytes = 200
	// skew is the maximum difference between the clocks of a provider's machines.
	skew = 2 * time.Second
	// internalError is not a refusal: something failed at the provider, possibly after it had taken the text.
	internalError = 20500
)

// twilio is Twilio's message API: a posted form, answered in JSON. The API cannot recognize a repeated text.
type twilio struct {
	set      *Setting
	client   *httptarget.Client
	messages string // the URL of the account's texts
	callback string
	header   http.Header
	secrets  []string // never shown
}

func newTwilio(set *Setting, client *httptarget.Client) (Provider, error) {
	user, password := set.Account, set.AuthToken
	if set.AuthToken == "" {
		user, password = set.APIKey, set.APISecret
	}
	t := &twilio{set: set, client: client, callback: set.StatusCallback}
	if !isSID(set.Account) {
		return nil, errors.New("deliver.sms.account: the secret is not an account SID")
	}
	credentials := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	t.secrets = append([]string{credentials, password, t.callback}, set.hidden...)
	if set.AuthToken == "" {
		t.secrets = append(t.secrets, user)
	}
	t.messages = strings.TrimSuffix(set.URL, "/") + twilioPath + set.Account + "/Messages.json"
	t.header = http.Header{
		"Authorization": {"Basic " + credentials},
		"Accept":        {"application/json"},
		"User-Agent":    {"Penstock"},
	}
	return t, nil
}

// message is a text as the provider shows it, or an error of the API.
type message struct {
	SID         string  `json:"sid"`
	Status      status  `json:"status"` // a word for a text, the HTTP status for an error
	To          string  `json:"to"`
	From        string  `json:"from"`
	Service     string  `json:"messaging_service_sid"`
	Body        string  `json:"body"`
	Direction   string  `json:"direction"`
	DateCreated string  `json:"date_created"`
	ErrorCode   *int    `json:"error_code"`
	ErrorText   *string `json:"error_message"`

	Code    int    `json:"code"`
	Message string `json:"message"`
}

type status string

func (s *status) UnmarshalJSON(b []byte) error {
	*s = status(strings.Trim(string(b), `"`))
	return nil
}

// Send implements Provider.
func (t *twilio) Send(ctx context.Context, gate drain.Gate, m Message) (string, error) {
	form := url.Values{"To": {m.To}, "Body": {m.Body}}
	for name, value := range map[string]string{
		"From": m.From, "MessagingServiceSid": t.set.MessagingService, "StatusCallback": t.callback,
	} {
		if value != "" {
			form.Set(name, value)
		}
	}
	answer, err := t.do(ctx, gate, http.MethodPost, t.messages, form.Encode())
	if err != nil {
		return "", err
	}
	return t.judge(answer, m)
}

func (t *twilio) do(ctx context.Context, gate drain.Gate, method, to, body string) (*httptarget.Answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, to, strings.NewReader(body))
	if err != nil {
		return nil, drain.Down(errors.New("deliver.sms.url: cannot be requested")) // net/url's error would quote the URL
	}
	req.Header = t.header.Clone()
	if body != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	answer, err := t.client.Do(ctx, gate, t.set.Timeout.D(), req)
	if err != nil {
		return nil, httptarget.Veil(err, t.hide)
	}
	return answer, nil
}

// judge returns the ID or the error for an answer to a text.
func (t *twilio) judge(a *httptarget.Answer, m Message) (string, error) {
	var got message
	readable := json.Unmarshal(a.Body, &got) == nil
	if a.Status >= 200 && a.Status <= 299 {
		switch {
		case !readable || got.SID == "":
			return "", drain.Unknown(fmt.Errorf(
				"the provider answered %d without the sid of a text%s", a.Status, t.excerpt(a.Body),
			))
		case got.Status == "failed" && got.ErrorCode != nil:
			return "", t.refused(a, *got.ErrorCode, deref(got.ErrorText), m)
		}
		return got.SID, nil
	}
	if readable && got.Code != 0 && got.Code != internalError {
		return "", t.refused(a, got.Code, got.Message, m)
	}
	err := fmt.Errorf("the provider answered %d%s", a.Status, t.excerpt(a.Body))
	switch {
	case a.Status == http.StatusTooManyRequests:
		return "", drain.ThrottledBy(retryAt(err, a, 0))
	case a.Status == http.StatusServiceUnavailable:
		return "", drain.Trouble(drain.RetryAt(retryAt(err, a, 0)))
	case a.Status >= 500:
		// Something in front of the API answered, or the answer broke off: the text may have got through.
		return "", drain.Trouble(drain.Unknown(err))
	case a.Status < 400:
		return "", drain.Down(fmt.Errorf("%w (redirects are not followed): check deliver.sms.url", err))
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusForbidden:
		return "", drain.Trouble(err) // a timeout of the request, or a proxy's refusal
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusNotFound, a.Status == http.StatusMethodNotAllowed,
		a.Status == http.StatusProxyAuthRequired:
		return "", drain.Down(fmt.Errorf("%w: check url, account and credentials in deliver.sms", err))
	}
	return "", drain.Permanent(err)
}

// refused converts an error of the API to an error for the drainer. Such an error means that the provider has not taken
// the text, or will not send it.
func (t *twilio) refused(a *httptarget.Answer, code int, text string, m Message) error {
	err := fmt.Errorf("the provider refused: %d %s", code, clip.Text(
		printable(t.hide(text[:min(len(text), 4*excerptBytes)])), excerptBytes,
	))
	meaning := twilioErrors[code]
	switch {
	case meaning.busy, meaning.pause > 0, a.Status == http.StatusTooManyRequests:
		return drain.ThrottledBy(retryAt(err, a, meaning.pause))
	case meaning.mend != "" && !(meaning.sender && m.From != t.set.From):
		return drain.Down(fmt.Errorf("%w: %s", err, meaning.mend))
	case meaning.again > 0:
		return drain.RetryAt(retryAt(err, a, meaning.again))
	case a.Status == http.StatusUnauthorized:
		return drain.Down(fmt.Errorf("%w: %s", err, mendCredentials))
	case a.Status >= 500:
		return drain.Trouble(drain.RetryAt(retryAt(err, a, 0)))
	}
	return drain.Permanent(err)
}

// Find implements Finder. It lists the texts to the number, newest first. It does not filter by day, because a queued
// text has no sending date yet. It compares creation dates by the provider's clock, which is the answer's Date.
func (t *twilio) Find(ctx context.Context, m Message, since time.Time, take func(string) bool) (string, bool, error) {
	query := url.Values{"To": {m.To}, "PageSize": {"50"}}
	answer, err := t.do(ctx, open{time.Now().Add(t.set.Timeout.D())}, http.MethodGet, t.messages+"?"+query.Encode(), "")
	if err != nil {
		return "", false, err
	}
	if answer.Status != http.StatusOK {
		return "", false, fmt.Errorf("it answered %d%s", answer.Status, t.excerpt(answer.Body))
	}
	var list struct {
		Messages []message `json:"messages"`
		Next     *string   `json:"next_page_uri"`
	}
	there, err := http.ParseTime(answer.Header.Get("Date"))
	if err != nil || answer.Cut || json.Unmarshal(answer.Body, &list) != nil || list.Messages == nil {
		return "", false, errors.New("its list cannot be read")
	}
	// Both dates are truncated to seconds, and may come from different machines.
	beginning := there.Add(-time.Since(since) - skew).Truncate(time.Second)
	all := list.Next == nil || *list.Next == ""
	for i := range list.Messages {
		at, err := time.Parse(time.RFC1123Z, list.Messages[i].DateCreated)
		if err != nil {
			return "", false, errors.New("its list has a text without a date")
		}
		if at.Before(beginning) {
			all = true // the rest is older
			continue
		}
		if t.is(&list.Messages[i], m) && take(list.Messages[i].SID) {
			return list.Messages[i].SID, true, nil
		}
	}
	if !all {
		return "", false, errors.New("it lists too many texts to the number")
	}
	return "", false, nil
}

// is reports whether a text of the list is the one looked for.
func (t *twilio) is(got *message, m Message) bool {
	return got.SID != "" && got.To == m.To && got.Body == m.Body && got.Direction == "outbound-api" &&
		(m.From == "" || got.From == m.From) && got.Service == t.set.MessagingService
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
