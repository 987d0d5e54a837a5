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

// transaction is one message under way.
type transaction struct {
	pool    *pool
	conn    *conn
	letter  *letter
	job     *drain.Job
	timeout time.Duration

	accepted, put, refused []refusal // recipients; put off
}

// fits checks, before the departure, that the server takes such messages at all.
func (t *transaction) fits() error {
	lacks := func(extension string) bool { has, _ := t.conn.client.Extension(extension); return !has }
	switch {
	case t.letter.utf8 && lacks("SMTPUTF8"):
		return drain.Permanent(errors.New(
			"an address or a header is not ASCII, and the server does not take such (it has no SMTPUTF8)",
		))
	case t.letter.wide && lacks("8BITMIME"):
		return drain.Permanent(errors.New(
			"the message is not ASCII, and the server does not take such (it has no 8BITMIME); encode it as quoted-printable " +
				"or base64",
		))
	}
	if has, limit := t.conn.client.Extension("SIZE"); has {
		if n, err := strconv.Atoi(limit); err == nil && n > 0 && len(t.letter.text) > n {
			return drain.Permanent(fmt.Errorf("the message has %d bytes, the server takes %d", len(t.letter.text), n))
		}
	}
	return nil
}

// run carries the transaction through, right behind the gate, and gives the connection back.
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

// exchange reports whether the connection is still good, and what became of the job.
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
	// From here on the final dot may have arrived, and with it the message: RFC 5321, 4.2.5 and 6.1.
	err = w.Close()
	if err == nil {
		r, err = t.answer()
	}
	if err == nil && (r.code < 200 || r.code > 299 && r.code < 400 || r.code > 599) {
		err = fmt.Errorf("the answer to the message makes no sense: %s", r)
	}
	if err != nil {
		unknown := drain.Unknown(fmt.Errorf(
			"the message was sent, and it is not known whether it was taken: %w", interrupted(ctx, err),
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

// good reports whether the connection outlives an error.
func (t *transaction) good(err error) bool {
	var answered *answered
	return errors.As(err, &answered) && answered.reply.code != 421
}

// recipients sends MAIL FROM and RCPT TO, all at once where the server allows it (RFC 2920). With one error of the
// server for all of them it ends.
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
			if together && r.code != 421 { // what is on its way is read, so that the connection can be used again
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

// lost says what a connection that was lost among the recipients is. Before MAIL FROM was answered
// it is the server's business alone; after, a job that makes it hang up must not come back for ever.
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

// putOff says what becomes of a message that was sent to nobody: if some of its recipients were put off, those who were
// accepted wait for them, for the one job is sent once.
func (t *transaction) putOff(next time.Duration) error {
	err := errors.New(bounce.Nobody + bounce.Sections(bounces(t.put), bounces(t.refused)))
	if len(t.put) == 0 {
		return drain.Permanent(err)
	}
	return drain.RetryAt(err, time.Now().Add(next))
}

// next is how long to wait before the next try: as those who were put off were told, or the queue's backoff. It is
// chosen here, for with it the deadline is or is not kept.
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

// answered is an answer that is not what was hoped for.
type answered struct {
	reply reply
	to    string
}

func (a *answered) Error() string { return "the server answered " + a.reply.String() + " to " + a.to }

// denied says what such an answer is to the drainer.
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
		if at == toMessage { // it is refused for all who were accepted
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

// bounced are the recipients of a message that was refused: those who were refused or put off before too, with what
// they were told.
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
