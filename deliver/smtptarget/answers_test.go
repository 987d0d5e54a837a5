package smtptarget

import (
	"bufio"
	"crypto/hmac"
	"crypto/md5" // CRAM-MD5 is made of it
	"encoding/base64"
	"encoding/hex"
	"io"
	"maps"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// answering delivers a job to a server that answers as it is told.
func answering(t *testing.T, job *drain.Job, answers map[string]string) error {
	t.Helper()
	host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) { play(c, r, "220 hi", answers) })
	return sender(t, Options{}).Deliver(t.Context(), job, opened(), target(t, host, port, nil))
}

// What a server answers reaches the drainer, with the time that it names.
func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		to, answer string
		want       queue.Verdict
		in         time.Duration // 0: none
	}{
		{"MAIL", "421 4.7.0 too many messages, try again in 90 seconds", queue.Throttle, 90 * time.Second},
		{"MAIL", "454 4.7.0 slow down", queue.Throttle, minSpare},
		{"MAIL", "530 5.7.0 log in first", queue.Down, 0},
		{"MAIL", "553 5.1.8 not this sender", queue.Bury, 0},
		{"RCPT", "450 4.7.1 greylisted for 5 minutes", queue.Fail, 5 * time.Minute},
		{"RCPT", "451 4.7.28 you send too much", queue.Throttle, minSpare},
		{"RCPT", "399 what", queue.Fail, 0},
		{"DATA", "452 4.3.1 full", queue.Throttle, minSpare},
		{"DATA", "554 5.5.1 no", queue.Bury, 0},
		{".", "454 Throttling failure: maximum sending rate exceeded", queue.Throttle, minSpare},
		{".", "451 4.3.0 wait 2 minutes", queue.Fail, 2 * time.Minute},
		{".", "554 5.7.1 spam", queue.Bury, 0},
	} {
		err := answering(t, plainJob(), map[string]string{c.to: c.answer})
		wants(t, err, c.want, c.answer[:3])
		until := drain.What(err).Until
		if off := time.Until(until) - c.in; c.in == 0 && !until.IsZero() || c.in > 0 && (off > 0 || off < -20*time.Second) {
			t.Errorf("%s to %s: until %v", c.answer, c.to, until)
		}
	}
}

// A server that repeats the password, wherever it likes and in whatever form, has it told to nobody.
func TestEchoes(t *testing.T) {
	const secret = "s3cret-pa55word"
	token := base64.StdEncoding.EncodeToString([]byte("\x00me\x00" + secret))
	auth := map[string]string{"EHLO": "250-hi\r\n250 AUTH PLAIN", "AUTH": "235 yes"}
	for _, echo := range []string{secret, token, base64.StdEncoding.EncodeToString([]byte(secret))} {
		for _, word := range []string{"AUTH", "MAIL", "RCPT", "DATA", "."} {
			for _, code := range []string{"450 ", "550 ", "399 ", ""} {
				answers := maps.Clone(auth)
				answers[word] = code + "got " + echo + strings.Repeat("x", 1000)
				host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) { play(c, r, "220 hi", answers) })
				set := target(t, host, port, func(s *SMTP) { s.Username, s.Password = "me", secret })
				err := sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), set)
				if err == nil || strings.Contains(err.Error(), echo) || !strings.Contains(err.Error(), "got ***") ||
					len(err.Error()) > 500 {
					t.Errorf("%s to %s: %v", code, word, err)
				}
			}
		}
	}
}

// A message that a server has said that it does not take is not begun.
func TestFits(t *testing.T) {
	wants(
		t, answering(t, plainJob(), map[string]string{"EHLO": "250-hi\r\n250 SIZE 100", "MAIL": "-"}), queue.Bury,
		"the server's limit is 100",
	)
	if err := answering(t, plainJob(), map[string]string{"EHLO": "250-hi\r\n250 SIZE 1000"}); err != nil {
		t.Error(err)
	}
	wide := jobOf("From: a@example.com\r\nTo: b@example.com\r\n\r\nü")
	wide.ContentType = "message/rfc822"
	wants(t, answering(t, wide, map[string]string{"MAIL": "-"}), queue.Bury, "8BITMIME")
	if err := answering(t, wide, map[string]string{"EHLO": "250-hi\r\n250 8BITMIME"}); err != nil {
		t.Error(err)
	}
}

func TestCRAMMD5(t *testing.T) {
	const challenge = "<1896.697170952@mx.test>"
	host, port := script(t, func(_ int, c net.Conn, r *bufio.Reader) {
		_, _ = io.WriteString(c, "220 hi\r\n")
		_, _ = r.ReadString('\n') // EHLO
		_, _ = io.WriteString(c, "250-hi\r\n250 AUTH CRAM-MD5\r\n")
		_, _ = r.ReadString('\n') // AUTH
		_, _ = io.WriteString(c, "334 "+base64.StdEncoding.EncodeToString([]byte(challenge))+"\r\n")
		line, _ := r.ReadString('\n')
		answer, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(line))
		sum := hmac.New(md5.New, []byte(password))
		_, _ = sum.Write([]byte(challenge))
		if string(answer) != "me "+hex.EncodeToString(sum.Sum(nil)) {
			_, _ = io.WriteString(c, "535 no\r\n")
			return
		}
		play(c, r, "235 yes", nil)
	})
	set := target(t, host, port, func(s *SMTP) { s.Username, s.Password = "me", password })
	if err := sender(t, Options{}).Deliver(t.Context(), plainJob(), opened(), set); err != nil {
		t.Error(err)
	}
}
