package smtptarget

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/deliver/bounce"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// transaction is the transaction of one message.
type transaction struct {
	pool    *pool
	conn    *conn
	letter  *letter
	job     *drain.Job
	timeout time.Duration

	accepted, put, refused []refusal // recipients; put has the deferred ones
}

// fits checks, before the departure, that the server supports the message's size and character set.
func (t *transaction) fits() error {
	lacks := func(extension string) bool { has, _ := t.conn.client.Extension(extension); return !has }
	switch {
	case t.letter.utf8 && lacks("SMTPUTF8"):
		return drain.Permanent(errors.New(
			"an address or a header is not ASCII, which the server does not accept (it has no SMTPUTF8)",
		))
	case t.letter.wide && lacks("8BITMIME"):
		return drain.Permanent(errors.New(
			"the message is not ASCII, which the server does not accept (it has no 8BITMIME); encode it as quoted-printable " +
				"or base64",
		))
	}
	if has, limit := t.conn.client.Extension("SIZE"); has {
		if n, err := strconv.Atoi(limit); err == nil && n > 0 && len(t.letter.text) > n {
			return drain.Permanent(fmt.Errorf("the message has %d bytes, the server's limit is %d", len(t.letter.text), n))
		}
	}
	return nil
}

// run makes the transaction, right behind the gate, and returns the connection to the pool.
func (t *transaction) run(ctx context.Context) error {
	t.conn.wire.begin(time.Now().Add(t.timeout))
	stop := context.AfterFunc(ctx, t.conn.wire.interrupt)
	good, err := t.exchange(ctx)
	if stop() && good {
		t.pool.put(t.conn)
	} else {
		t.pool.lose(t.conn)
	}
	return err
}

// exchange makes the transaction. It reports whether the connection can be reused, and returns the error for the
// drainer.
func (t *transaction) exchange(ctx context.Context) (good bool, err error) {
	t.conn.dirty = true
	if err := t.recipients(ctx); err != nil {
		return t.good(err), err
	}
	if next := t.next(); len(t.put) > 0 && !t.job.Last(next) || len(t.accepted) == 0 {
		return true, t.putOff(next)
	}
	r, err := t.command("DATA")
	if err != nil {
		return false, drain.Trouble(fmt.Errorf(
			"the connection was lost before the message was sent: %w", interrupted(ctx, err),
		))
	}
	if r.code != 354 {
		return r.code != 421, t.denied(r, "DATA")
	}
	text := t.conn.client.Text
	w := text.DotWriter()
	if _, err := w.Write(t.letter.text); err != nil {
		return false, drain.Trouble(fmt.Errorf(
			"the connection was lost while the message was sent: %w", interrupted(ctx, err),
		))
	}
	// From here on the server may have the final dot, and with it the message: RFC 5321, 4.2.5 and 6.1.
	err = w.Close()
	if err == nil {
		r, err = t.answer()
	}
	if err == nil && (r.code < 200 || r.code > 299 && r.code < 400 || r.code > 599) {
		err = fmt.Errorf("the answer to the message is not valid: %s", r)
	}
	if err != nil {
		unknown := drain.Unknown(fmt.Errorf(
			"the message was sent, but it is unknown whether it was accepted: %w", interrupted(ctx, err),
		))
		if ctx.Err() != nil {
			return false, unknown
		}
		return false, drain.Trouble(unknown)
	}
	t.conn.dirty = false
	if r.judge(toMessage) != taken {
		return r.code != 421, t.denied(r, "the message")
	}
	t.pool.wentWell()
	if missed := append(t.refused, t.put...); len(missed) > 0 {
		return true, drain.Permanent(errors.New(
			bounce.Delivered(len(t.accepted), len(t.letter.to)) + bounce.Sections(nil, bounces(missed)),
		))
	}
	return true, nil
}

// good reports whether the connection can be reused after an error.
func (t *transaction) good(err error) bool {
	var answered *answered
	return errors.As(err, &answered) && answered.reply.code != 421
}

// recipients sends MAIL FROM and RCPT TO, in one go if the server allows it (RFC 2920). It ends at the first error that
// concerns all recipients.
func (t *transaction) recipients(ctx context.Context) error {
	commands := []string{t.mail()}
	for _, a := range t.letter.to {
		commands = append(commands, "RCPT TO:<"+a+">")
	}
	together, _ := t.conn.client.Extension("PIPELINING")
	if together {
		if err := t.send(commands...); err != nil {
			return t.lost(ctx, err, 0)
		}
	}
	for i, command := range commands {
		if !together {
			if err := t.send(command); err != nil {
				return t.lost(ctx, err, i)
			}
		}
		r, err := t.answer()
		if err != nil {
			return t.lost(ctx, err, i)
		}
		if i == 0 {
			if r.judge(toMail) == taken {
				continue
			}
			if together && r.code != 421 { // read the pending answers, so that the connection can be reused
				for range t.letter.to {
					if _, err := t.answer(); err != nil {
						return t.lost(ctx, err, 0)
					}
				}
			}
			return t.denied(r, "MAIL FROM")
		}
		to := refusal{t.letter.to[i-1], r}
		switch r.judge(toRecipient) {
		case taken:
			t.accepted = append(t.accepted, to)
		case refused:
			t.refused = append(t.refused, to)
		case later:
			t.put = append(t.put, to)
		default:
			if together && r.code != 421 {
				for range len(commands) - 1 - i {
					if _, err := t.answer(); err != nil {
						return t.lost(ctx, err, i)
					}
				}
			}
			return t.denied(r, "RCPT TO")
		}
	}
	return nil
}

func (t *transaction) mail() string {
	command := "MAIL FROM:<" + t.letter.from + ">"
	if has, _ := t.conn.client.Extension("SIZE"); has {
		command += " SIZE=" + strconv.Itoa(len(t.letter.text))
	}
	if t.letter.wide {
		command += " BODY=8BITMIME"
	}
	if t.letter.utf8 {
		command += " SMTPUTF8"
	}
	return command
}

// lost returns the error of a connection that was lost among the recipients. Before the answer to MAIL FROM it is only
// the server's problem. After that, a job that makes the server hang up must not be retried forever.
func (t *transaction) lost(ctx context.Context, err error, answers int) error {
	err = fmt.Errorf("the connection was lost before the message was sent: %w", interrupted(ctx, err))
	if ctx.Err() != nil {
		return err
	}
	if answers == 0 {
		return drain.Down(err)
	}
	return drain.Trouble(err)
}

// putOff returns the error of a message that was sent to nobody. If some recipients were deferred, the job is retried
// for all recipients: sending to the accepted ones now would send the message to them twice.
func (t *transaction) putOff(next time.Duration) error {
	err := errors.New(bounce.Nobody + bounce.Sections(bounces(t.put), bounces(t.refused)))
	if len(t.put) == 0 {
		return drain.Permanent(err)
	}
	return drain.RetryAt(err, time.Now().Add(next))
}

// next returns how long to wait before the next attempt: as the server said, or the queue's backoff. It is chosen here
// to check whether that is within the deadline.
func (t *transaction) next() time.Duration {
	var longest time.Duration
	for _, r := range t.put {
		longest = max(longest, wait(r.reply.text))
	}
	if longest > 0 {
		return min(longest, queue.MaxBackoffLimit)
	}
	return t.job.Spec.Retry.Backoff(t.job.Attempt)
}

// answered is an unexpected answer.
type answered struct {
	reply reply
	to    string
}

func (a *answered) Error() string { return "the server answered " + a.reply.String() + " to " + a.to }

// denied converts an unexpected answer to an error for the drainer.
func (t *transaction) denied(r reply, to string) error {
	err := &answered{r, to}
	at := map[string]stage{"MAIL FROM": toMail, "RCPT TO": toRecipient}[to]
	if at == 0 {
		at = toMessage
	}
	switch r.judge(at) {
	case throttled:
		return drain.ThrottledBy(err, t.pool.spare(r.text))
	case later:
		if d := wait(r.text); d > 0 {
			return drain.RetryAt(err, time.Now().Add(d))
		}
		return err
	case refused:
		if at == toMessage { // refused for all accepted recipients
			return drain.Permanent(errors.New(bounce.Message + bounce.List(t.bounced(r))))
		}
		return drain.Permanent(err)
	case unfit:
		if at == toMail && r.code >= 500 {
			return drain.Down(fmt.Errorf("%w; check deliver.smtp.username, password, mechanism and tls", err))
		}
	}
	return drain.Trouble(err) // it does not speak SMTP
}

// bounced returns the recipients of a refused message with their answers, including recipients refused or deferred
// before.
func (t *transaction) bounced(r reply) []bounce.Bounce {
	all := slices.Concat(t.refused, t.put)
	for _, to := range t.accepted {
		all = append(all, refusal{to.address, r})
	}
	return bounces(all)
}

func (t *transaction) command(line string) (reply, error) {
	if err := t.send(line); err != nil {
		return reply{}, err
	}
	return t.answer()
}

func (t *transaction) send(lines ...string) error {
	w := t.conn.client.Text.W
	for _, line := range lines {
		if _, err := w.WriteString(line + "\r\n"); err != nil {
			return err
		}
	}
	return w.Flush()
}

func (t *transaction) answer() (reply, error) {
	code, text, err := t.conn.client.Text.ReadResponse(0)
	return newReply(code, t.pool.hider.Hide(text)), t.pool.login.clean(err)
}
