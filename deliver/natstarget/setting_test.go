package natstarget

import (
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

func parse(text string) (*Target, error) {
	t := Default()
	if err := setting.Decode([]byte(text), "deliver.nats", t); err != nil {
		return nil, err
	}
	return t, t.Check("deliver.nats")
}

// No setting reaches a subject that is not below the prefix, or is NATS' own.
func TestSettingsThatAreRefused(t *testing.T) {
	for text, field := range map[string]string{
		`{}`:                                              "subject",
		`{"subject": ""}`:                                 "subject",
		`{"subject": "a.*"}`:                              "subject",
		`{"subject": ">"}`:                                "subject",
		`{"subject": "a..b"}`:                             "subject",
		`{"subject": ".a"}`:                               "subject",
		`{"subject": "a."}`:                               "subject",
		`{"subject": "$JS.API.STREAM.DELETE.x"}`:          "subject",
		`{"subject": "$SYS.REQ"}`:                         "subject",
		`{"subject": "a b"}`:                              "subject",
		`{"subject": "a\r\nPUB b 0"}`:                     "subject",
		`{"subject": "a\u0000"}`:                          "subject",
		`{"subject": "{tenant}"}`:                         "subject",
		`{"subject": "x{lane}"}`:                          "subject",
		`{"subject": "` + strings.Repeat("a", 201) + `"}`: "subject",
		`{"subject": "a", "mode": "both"}`:                "mode",
		`{"subject": "a", "mode": "core", "stream": "S"}`: "stream",
		`{"subject": "a", "stream": "S.>"}`:               "stream",
		`{"subject": "a", "timeout": "0s"}`:               "timeout",
		`{"subject": "a", "timeout": 5}`:                  "timeout",
		`{"subject": "a", "url": "nats://x"}`:             "url",
	} {
		_, err := parse(text)
		var refused *invalid.Error
		if !errors.As(err, &refused) || refused.Field != "deliver.nats."+field {
			t.Errorf("%s: %v, want an error of %s", text, err, field)
		}
	}
	if got, err := parse(`{"subject": "mail.{lane}.sent-1_x", "stream": "MAIL"}`); err != nil || got.Mode != JetStream ||
		got.Timeout.D() != DefaultTimeout {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a job brings cannot widen its subject, nor steer NATS.
func TestJobsThatAreRefused(t *testing.T) {
	target, err := parse(`{"subject": "{queue}.{lane}"}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, lane := range []string{"", ">", "*", "a.b", "$JS", "a b", "a\x00", "é", strings.Repeat("a", 201)} {
		var refused *invalid.Error
		if err := target.Accept(&queue.Job{Queue: "q", Lane: lane}); !errors.As(err, &refused) || refused.Field != "lane" {
			t.Errorf("lane %q: %v", lane, err)
		}
	}
	for _, name := range []string{
		"Nats-Msg-Id", "nats-rollup", "NATS-TTL", "Nats-Expected-Last-Sequence", "Status", "status",
	} {
		var refused *invalid.Error
		if err := target.Accept(&queue.Job{
			Queue: "q", Lane: "a", Headers: map[string]string{name: "1"},
		}); !errors.As(err, &refused) || refused.Field != "headers."+name {
			t.Errorf("header %s: %v", name, err)
		}
	}
	job := &queue.Job{Queue: "ses.otp", Lane: "tenant-7", Headers: map[string]string{"X-Natsy": "1"}}
	if err := target.Accept(job); err != nil {
		t.Error(err)
	}
	if subject, err := target.subject(job); err != nil || subject != "ses-otp.tenant-7" {
		t.Errorf("%s, %v", subject, err)
	}
}

func TestPrefixes(t *testing.T) {
	for s, valid := range map[string]bool{
		"jobs": true, "a.b-c": true, "": false, "$JS": false, "_INBOX": false, "_inbox.x": false, "a..b": false, "a.": false,
		"*": false, "a.>": false, "a b": false, "jobs.{app}": true, "{app}": true, "jobs.x{app}": false, "{queue}": false,
	} {
		if ValidPrefix(s) != valid {
			t.Errorf("prefix %q: %v", s, !valid)
		}
	}
}
