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

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/internal/clip"
)

const (
	// An answer's body is read so far and so long, so that its connection can be used
	// again; beyond that it is cheaper to dial.
	drainBytes = 64 << 10
	drainTime  = time.Second

	excerptBytes = 200
)

// read judges an answer. What it tells of it has no secrets of job and target.
func (e *exchange) read(answer *http.Response, job *drain.Job, target *Target) error {
	defer answer.Body.Close()
	head := e.beginning(answer.Body)
	now := time.Now()
	again, asked := RetryAfter(answer.Header, now)
	meaning := target.outcome(answer.StatusCode, asked)
	if meaning == Delivered {
		if spare := usedUp(answer.Header, now); spare.For > 0 {
			return drain.DeliveredThen(spare.Until(now), fmt.Sprintf(
				"the receiver answered %d, and that its rate limit is used up%s", answer.StatusCode, spare.Note(),
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

// beginning reads a body, and returns how it begins. The answer is known: this has a time of its own.
func (e *exchange) beginning(body io.Reader) []byte {
	if body == http.NoBody {
		return nil
	}
	e.mu.Lock()
	e.within(drainTime)
	e.mu.Unlock()
	head := make([]byte, 4*excerptBytes) // so that nothing to hide is cut in two before it is found
	n, err := io.ReadFull(body, head)
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, drainBytes)
	}
	return head[:n]
}

// excerpt makes what can be shown to people of the beginning of an answer.
func excerpt(b []byte) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, string(b))
	return strings.Join(strings.Fields(printable), " ")
}
