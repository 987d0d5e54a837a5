package smtptarget

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// Who puts a job in does not choose whose name the mail has: that is the target's sender, but for those that it allows.
func TestSenderIsTheTargets(t *testing.T) {
	raw := func(head string) queue.Job {
		return queue.Job{Queue: "mail", ID: "1", ContentType: typeMail, Payload: []byte(head + "To: a@example.com\r\n\r\nx")}
	}
	composed := func(from string) queue.Job {
		return queue.Job{Queue: "mail", ID: "1", Payload: []byte(
			`{"from": "` + from + `", "to": "a@example.com", "text": "x"}`,
		)}
	}
	for _, c := range []struct {
		setting string
		job     queue.Job
		from    string // of the envelope; empty: refused
	}{
		{`"from": "Shop <shop@example.com>"`, composed(""), "shop@example.com"},
		{`"from": "Shop <shop@example.com>"`, composed("shop@example.com"), "shop@example.com"},
		{`"from": "Shop <shop@example.com>"`, composed("SHOP@Example.com"), "SHOP@Example.com"},
		{`"from": "Shop <shop@example.com>"`, composed("ceo@example.com"), ""},
		{`"from": "Shop <shop@example.com>"`, composed("shop@example.com.evil.test"), ""},
		{`"helo": "a.example"`, composed("shop@example.com"), ""},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`, composed("any@shop.example"),
			"any@shop.example",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`,
			composed("Any <any@SHOP.example>"), "any@SHOP.example",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`, composed("news-7@example.com"),
			"news-7@example.com",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`, composed("shop@example.com"),
			"shop@example.com",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`, composed("ceo@example.com"),
			"",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@shop.example", "news-*@example.com"]`, composed("a@evilshop.example"),
			"",
		},
		{
			`"from": "shop@example.com", "allow_from": ["*@*.shop.example"]`, composed("a@eu.shop.example"), "a@eu.shop.example",
		},
		{`"allow_from": ["*"]`, composed("ceo@example.com"), "ceo@example.com"},

		// A message that is ready has its senders in its headers: all of them count, for people see them.
		{`"from": "shop@example.com"`, raw("From: Shop <shop@example.com>\r\n"), "shop@example.com"},
		{`"from": "shop@example.com"`, raw("From: ceo@example.com\r\n"), ""},
		{`"from": "shop@example.com"`, raw("From: ceo@example.com\r\nSender: shop@example.com\r\n"), ""},
		{`"from": "shop@example.com"`, raw("From: shop@example.com\r\nSender: ceo@example.com\r\n"), ""},
		{`"from": "shop@example.com"`, raw("From: shop@example.com, ceo@example.com\r\nSender: shop@example.com\r\n"), ""},
		{
			`"from": "shop@example.com", "allow_from": ["*@example.com"]`,
			raw("From: ceo@example.com\r\nSender: shop@example.com\r\n"), "shop@example.com",
		},
	} {
		s := Default()
		if err := setting.Decode([]byte(`{"host": "mail.example",`+c.setting+`}`), "deliver.smtp", s); err != nil {
			t.Error(err)
			continue
		}
		if err := s.Check("deliver.smtp"); err != nil {
			t.Error(err)
			continue
		}
		l, err := s.letter(&c.job, time.Now())
		var field *invalid.Error
		switch {
		case c.from == "" && (!errors.As(err, &field) || field.Field != "payload.from" && field.Field != "payload.sender" ||
			!strings.Contains(err.Error(), "allow_from")):
			t.Errorf("%s: %s: %v", c.setting, c.job.Payload, err)
		case c.from != "" && (err != nil || l.from != c.from):
			t.Errorf("%s: %s: %+v, %v, want %s", c.setting, c.job.Payload, l, err, c.from)
		}
	}
	for _, bad := range []string{
		`["shop.example"]`, `["a@b@c"]`, `[""]`, `["a b@example.com"]`, `"*@example.com"`, `["*@example.com\n"]`,
	} {
		s := Default()
		err := setting.Decode(
			[]byte(`{"host": "mail.example", "from": "shop@example.com", "allow_from": `+bad+`}`), "deliver.smtp", s,
		)
		if err == nil {
			err = s.Check("deliver.smtp")
		}
		if err == nil || !strings.Contains(err.Error(), "deliver.smtp.allow_from") ||
			strings.Contains(err.Error(), "not a field") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
