package smtptarget

import (
	"testing"
	"time"
)

// The table of docs/targets/smtp.md.
func TestReplies(t *testing.T) {
	for _, c := range []struct {
		code                       int
		text                       string
		before, mail, rcpt, letter verdict
	}{
		{250, "2.0.0 ok", taken, taken, taken, taken},
		{251, "will forward", taken, taken, taken, taken},
		{421, "4.7.0 try again later", throttled, throttled, throttled, throttled},
		{421, "", throttled, throttled, throttled, throttled},
		{454, "4.7.0 temporary authentication failure", throttled, throttled, throttled, throttled},
		{454, "Throttling failure: Maximum sending rate exceeded.", throttled, throttled, throttled, throttled},
		{450, "4.7.1 <a@x.de>: Recipient address rejected: Greylisted", throttled, later, later, later},
		{450, "4.7.1 too much mail from 192.0.2.1", throttled, throttled, later, throttled},
		{450, "4.2.1 receiving mail too quickly", throttled, later, later, later},
		{450, "4.1.8 sender's domain not found", throttled, later, later, later},
		{450, "busy", throttled, throttled, later, throttled},
		{451, "local error in processing", throttled, later, later, later},
		{451, "4.7.500 Server busy", throttled, throttled, throttled, throttled},
		{451, "4.3.2 not accepting messages", throttled, throttled, throttled, throttled},
		{451, "4.7.1 Greylisting in action", throttled, later, later, later},
		{451, "4.3.0 filter failed", throttled, later, later, later},
		{452, "4.2.2 mailbox full", throttled, later, later, later},
		{452, "4.3.1 insufficient system storage", throttled, throttled, throttled, throttled},
		{452, "4.5.3 too many recipients", throttled, later, later, later},
		{452, "slow down", throttled, throttled, later, throttled},
		{432, "4.7.12 a password transition is needed", unfit, later, throttled, later},
		{455, "cannot do parameters", unfit, later, later, later},
		{530, "5.7.0 authentication required", unfit, unfit, refused, refused},
		{535, "5.7.8 bad credentials", unfit, unfit, refused, refused},
		{550, "5.1.1 no such user", unfit, refused, refused, refused},
		{550, "5.7.1 relaying denied", unfit, refused, refused, refused},
		{552, "too many recipients", unfit, refused, later, refused},
		{552, "5.2.2 mailbox full", unfit, refused, refused, refused},
		{554, "5.7.1 spam", unfit, refused, refused, refused},
		{354, "go on", unfit, unfit, unfit, unfit},
		{199, "", unfit, unfit, unfit, unfit},
		{999, "", unfit, unfit, unfit, unfit},
	} {
		r := newReply(c.code, c.text)
		if got := [4]verdict{
			r.judge(beforeMail), r.judge(toMail), r.judge(toRecipient), r.judge(toMessage),
		}; got != [4]verdict{c.before, c.mail, c.rcpt, c.letter} {
			t.Errorf("%d %s: %v, want %v", c.code, c.text, got, [4]verdict{c.before, c.mail, c.rcpt, c.letter})
		}
	}
}

func TestWaits(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"4.7.1 try again in 60 seconds":             time.Minute,
		"Greylisted, please try again after 5 min.": 5 * time.Minute,
		"wait 2 hours":                               2 * time.Hour,
		"blocked for about 90s":                      90 * time.Second,
		"try again in 999999 hours":                  24 * time.Hour,
		"try again later":                            0,
		"limit of 60 messages in 5":                  0,
		"in 12345678 seconds":                        0,
		"see https://example.com/help/in-60-seconds": 0,
	} {
		if got := wait(text); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

// Without a word about how long, a server is spared for longer from one time to the next, and many answers at once are
// one.
func TestSpare(t *testing.T) {
	p := &pool{}
	for range 3 {
		p.spare("slow down")
	}
	for _, want := range []time.Duration{
		30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute,
	} {
		if p.delay != want {
			t.Errorf("%v, want %v", p.delay, want)
		}
		p.spared = time.Now().Add(-time.Millisecond)
		p.spare("slow down")
	}
	p.wentWell()
	if at := p.spare("slow down"); time.Until(at) > minSpare {
		t.Errorf("after a message was taken: %v", time.Until(at))
	}
}
