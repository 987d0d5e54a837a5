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
	// skew is by how much the clocks of a provider's machines may differ.
	skew = 2 * time.Second
	// internalError is no refusal: it says that something broke inside, and not whether before the text was taken.
	internalError = 20500
)

// twilio speaks Twilio's message API: a form is posted, JSON comes back. The API has nothing by which it would
// recognise a text that it has already.
type twilio struct {
	set      *Setting
	client   *httptarget.Client
	messages string // the URL of the account's texts
	callback string
	header   http.Header
	secrets  []string // what is never told
}

func newTwilio(set *Setting, client *httptarget.Client) (Provider, error) {
	user, password := set.Account, set.AuthToken
	if set.AuthToken == "" {
		user, password = set.APIKey, set.APISecret
	}
	t := &twilio{set: set, client: client, callback: set.StatusCallback}
	if !isSID(set.Account) {
		return nil, errors.New("deliver.sms.account: the secret that it refers to is no account's SID")
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

// message is a text as the provider shows it, and an error of its.
type message struct {
	SID         string  `json:"sid"`
	Status      status  `json:"status"` // a word of a text's, the HTTP status of an error
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
		return nil, drain.Down(errors.New("deliver.sms.url: cannot be requested")) // net/url's error would quote it
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

// judge says what an answer to a text means.
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
		// Whatever stands in front of the API said it, or broke off: the text may have got through.
		return "", drain.Trouble(drain.Unknown(err))
	case a.Status < 400:
		return "", drain.Down(fmt.Errorf("%w (redirects are not followed): check deliver.sms.url", err))
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusForbidden:
		return "", drain.Trouble(err) // it waited for the request in vain; or something on the way did not like it
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusNotFound, a.Status == http.StatusMethodNotAllowed,
		a.Status == http.StatusProxyAuthRequired:
		return "", drain.Down(fmt.Errorf("%w: check url, account and credentials in deliver.sms", err))
	}
	return "", drain.Permanent(err)
}

// refused says what an error of the provider's own is to the drainer. In it the provider says that it has not taken the
// text, or will not send it.
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

// Find implements Finder. It asks for the texts to the number, newest first, and not for those of a day: one that is
// still queued has no date on which it was sent. It goes by when they were made, on the provider's clock, which the
// answer's Date tells.
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
	// Both dates are cut to whole seconds, and need not come from the same machine.
	beginning := there.Add(-time.Since(since) - skew).Truncate(time.Second)
	all := list.Next == nil || *list.Next == ""
	for i := range list.Messages {
		at, err := time.Parse(time.RFC1123Z, list.Messages[i].DateCreated)
		if err != nil {
			return "", false, errors.New("its list has a text without a date")
		}
		if at.Before(beginning) {
			all = true // the rest is older still
			continue
		}
		if t.is(&list.Messages[i], m) && take(list.Messages[i].SID) {
			return list.Messages[i].SID, true, nil
		}
	}
	if !all {
		return "", false, errors.New("it lists more texts to the number than are looked through")
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
