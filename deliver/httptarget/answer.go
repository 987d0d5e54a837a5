package httptarget

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/usage"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/clip"
)

const (
	// Limits of reading the rest of an answer's body, after which the connection can be reused. Beyond them it is cheaper
	// to dial.
	drainBytes = 64 << 10
	drainTime  = time.Second

	// usageBytes limits reading for what a call has used, which providers state at the end. It is passed on to a scanner
	// that keeps none of it, so the limit bounds the traffic and the work, not the memory.
	usageBytes = 16 << 20

	excerptBytes = 200
)

// judge returns the error for the drainer, without secrets of the job or target. head is the beginning of the body.
func judge(answer *http.Response, head []byte, job *drain.Job, target *Target) error {
	now := time.Now()
	again, asked := RetryAfter(answer.Header, now)
	meaning := target.outcome(answer, asked, now)
	if meaning == Delivered {
		if spare := usedUp(answer.Header, now); spare.For > 0 {
			return drain.DeliveredThen(spare.Until(now), fmt.Sprintf(
				"the receiver answered %d, with its rate limit used up%s", answer.StatusCode, spare.Note(),
			))
		}
		return nil
	}
	text := fmt.Sprintf("the receiver answered %d", answer.StatusCode)
	if answer.StatusCode >= 300 && answer.StatusCode <= 399 {
		text += " (redirects are not followed)"
	}
	if meaning == Throttled {
		again = throttle(answer.Header, now)
	}
	if meaning != Dead && meaning != Down {
		text += again.Note()
	}
	if shown := clip.Text(excerpt([]byte(hide(string(head), job, target))), excerptBytes); shown != "" {
		text += ": " + shown
	}
	err := errors.New(text)
	switch meaning {
	case Dead:
		return drain.Permanent(err)
	case Throttled:
		return drain.ThrottledBy(err, again.Until(now))
	case Down:
		return drain.Down(err)
	}
	if again.For > 0 {
		err = drain.RetryAt(err, again.Until(now))
	}
	if answer.StatusCode >= 500 {
		err = drain.Trouble(err)
	}
	return err
}

// beginning reads the body of an answer, and returns its beginning. whole is whether the body was read to its end. It
// takes drainTime, or what is left of the timeout if used needs the body. Beyond drainBytes the body is read only as
// long as used needs it and can still get all of it.
func (c *call) beginning(answer *http.Response, used *usage.Reader) (head []byte, whole bool) {
	if answer.Body == http.NoBody {
		return nil, true
	}
	var body io.Reader = answer.Body
	limit := drainTime
	if used.Pending() {
		body, limit = io.TeeReader(body, used), max(limit, time.Until(c.ends))
	}
	c.within(limit)
	// Longer than the excerpt, so that secrets are not cut before they are hidden.
	head, err := io.ReadAll(io.LimitReader(body, 4*excerptBytes))
	for read := 0; err == nil; read += drainBytes {
		if read > 0 && (!used.WantsMore() || answer.ContentLength > usageBytes || read >= usageBytes) {
			break
		}
		_, err = io.CopyN(io.Discard, body, drainBytes)
	}
	return head, errors.Is(err, io.EOF)
}

// reportActual records what a job has used, as the answer states it. Answers that refuse a job need not state it.
func reportActual(job *drain.Job, used *usage.Reader, whole, delivered bool) {
	actual, faults := used.End(whole)
	if actual != nil {
		_ = job.ReportActual(actual) // a Reader returns valid costs
	}
	for _, fault := range faults {
		if delivered {
			job.IgnoreActual(string(fault))
		}
	}
}

// excerpt returns text as printable characters with single spaces.
func excerpt(b []byte) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(b))
	return strings.Join(strings.Fields(printable), " ")
}
