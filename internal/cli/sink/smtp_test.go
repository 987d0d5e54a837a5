package sink

import (
	"errors"
	"io"
	"net/smtp"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/await"
)

const letter = "Message-ID: <welcome-17@example.com>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHow are you?\r\n"

// sendMail sends one over a connection of its own.
func sendMail(addr, text string, to ...string) error {
	return smtp.SendMail(addr, smtp.PlainAuth("", "any", "login", "127.0.0.1"), "shop@example.com", to, []byte(text))
}

func TestSinkShowsMail(t *testing.T) {
	s, addr, shown, _ := startedWith(t, (*Sink).ServeSMTP, Options{})
	if err := sendMail(addr, letter, "a@example.com", "b@example.com"); err != nil {
		t.Fatal(err)
	}
	if err := sendMail(addr, "no header"+strings.Repeat("x", 1000), "a@x", "b@x", "c@x", "d@x", "e@x"); err != nil {
		t.Fatal(err)
	}
	var large *textproto.Error
	long := strings.Repeat(strings.Repeat("x", 998)+"\r\n", maxBody/1000+1)
	if err := sendMail(addr, long, "a@x"); !errors.As(err, &large) || large.Code != 552 {
		t.Errorf("one that is too long: %v", err)
	}
	all := shown()
	if q := all[0]; q.Method != "MAIL" || q.Path != "shop@example.com -> a@example.com b@example.com" ||
		q.ID != "welcome-17@example.com" || q.Body != "Gr\u00fc\u00dfe\nHow are you?" || q.Bytes != int64(len(letter)) ||
		q.Answer != "250 2.0.0" {
		t.Errorf("it showed %+v", q)
	}
	if q := all[1]; len(q.Body) != maxShownBody || q.Bytes < 1009 || q.Path != "shop@example.com -> a@x b@x c@x ..." {
		t.Errorf("it showed %+v", q)
	}
	if sum := s.Totals(); sum.Requests != 3 || sum.Answers["250 2.0.0"] != 2 || sum.Answers["552 5.3.4"] != 1 ||
		sum.MostInASecond < 1 {
		t.Errorf("totals %+v", sum)
	}
}

func TestSinkFailsMail(t *testing.T) {
	for status, want := range map[int]string{
		429: "451 4.3.2 Slow down, try again in 3 seconds", 503: "451 4.3.0 Failed for now, try again in 3 seconds",
		400: "554 5.6.0 Refused",
	} {
		// Two of the die for each mail: its connection, its fate.
		s, addr, _, _ := startedWith(t, (*Sink).ServeSMTP, Options{
			Status: status, Fail: 0.1, RetryAfter: 2500 * time.Millisecond, Drop: 0.1, Refuse: 0.1,
			random: turns(0.5, 0.15, 0.5, 0.05, 0.05, 0.5, 0.25),
		})
		if err := sendMail(addr, letter, "a@example.com"); err == nil || strings.ReplaceAll(err.Error(), `"`, "") != want {
			t.Errorf("%d: %v, want %s", status, err, want)
		}
		if err := sendMail(addr, letter, "a@example.com"); !errors.Is(err, io.EOF) {
			t.Errorf("one that is dropped: %v", err)
		}
		if err := sendMail(addr, letter, "a@example.com"); err == nil {
			t.Error("a connection is not refused")
		}
		if err := sendMail(addr, letter, "a@example.com"); err != nil {
			t.Errorf("one that goes well: %v", err)
		}
		if sum := s.Totals(); sum.Requests != 3 || sum.Refused != 1 || sum.Answers[want[:9]] != 1 ||
			sum.Answers[Dropped] != 1 || sum.Answers["250 2.0.0"] != 1 {
			t.Errorf("totals %+v", sum)
		}
	}
}

// A mail without a text counts as dropped. A mail that hangs ends with the sink.
func TestSinkHangsMail(t *testing.T) {
	s, addr, _, stop := startedWith(t, (*Sink).ServeSMTP, Options{Hang: 1})
	c, err := smtp.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Mail("a@example.com"), c.Reset(), c.Mail("a@example.com"), c.Close()); err != nil {
		t.Fatal(err)
	}
	await.Until(t, "both are counted", func() bool { return s.Totals().Answers[Dropped] == 2 })
	answered := make(chan error, 1)
	go func() { answered <- sendMail(addr, letter, "a@example.com") }()
	await.Until(t, "it hangs", func() bool { return s.Totals().Answers[Hung] == 1 })
	stop()
	if err := <-answered; err == nil {
		t.Error("a mail that hangs was taken when the sink ended")
	}
	if sum := s.Totals(); sum.Requests != 3 {
		t.Errorf("totals %+v", sum)
	}
}
