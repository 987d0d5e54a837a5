package app

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/prove/law"
)

// askers are many who ask rules and append jobs at several ingresses, and keep account of what they were told.
type askers struct {
	t     *testing.T
	begun time.Time
	// decided counts the questions that were answered. Keys take turns by it: on a slow machine, most impatient askers get
	// no answer.
	asked, decided atomic.Int64

	mu      sync.Mutex
	fronts  []*front
	known   map[account]*ledger
	passed  map[string][]law.Passed // by rule and key, with a space between
	answers map[string]int
	back    int64 // jobs that their queue's own rule refused: what the other one took was to be given back
}

// asker is one of them. He asks the same ingress as long as that answers, and then another.
type asker struct {
	*askers
	at int
	hc *http.Client
}

// newAsker returns one who gives up when no answer came for so long.
func (c *askers) newAsker(at int, patience time.Duration) *asker {
	return &asker{c, at, &http.Client{Timeout: patience, Transport: &http.Transport{}}}
}

type account struct{ rule, key string }

// ledger is what is known of what was taken under a key: passed was, perhaps may have been besides.
type ledger struct{ passed, perhaps int64 }

// verdict is what an answer says of a question.
type verdict int

const (
	passed  verdict = iota
	already         // a job that came in before
	refused
	undecided // refused because nobody could decide: what was asked may have been taken
	unknown   // no answer, or one that says so
	untouched // nothing was changed
)

func (c *askers) front(i int) *front {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fronts[i%len(c.fronts)]
}

func (c *askers) restart(i int, f *front) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fronts[i] = f
}

// busy reports whether enough was refused and given back for a fault to have met it, however slow the machine is.
func (c *askers) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.back >= 100
}

func (c *askers) ledger(rule, key string) *ledger {
	l := c.known[account{rule, key}]
	if l == nil {
		l = &ledger{}
		c.known[account{rule, key}] = l
	}
	return l
}

func (c *asker) work(over <-chan struct{}) {
	defer c.hc.CloseIdleConnections()
	for {
		select {
		case <-over:
			return
		default:
		}
		n := c.asked.Add(1)
		key := lane(c.decided.Load()/turn*together + n%together)
		var v verdict
		switch n / together % 4 {
		case 0, 1:
			v = c.append(fmt.Sprintf("j%d", n), key)
		case 2:
			v = c.take("tenants", key)
		default:
			v = c.take([]string{"pulse.log", "pulse.meter"}[n/12%2], "")
		}
		if v == undecided || v == unknown || v == untouched {
			c.at++
		} else {
			c.decided.Add(1)
		}
	}
}

// take asks a rule once.
func (c *asker) take(rule, key string) verdict {
	asked := time.Since(c.begun)
	v, _ := c.ask("rules/"+rule+"/take", fmt.Sprintf(`{"key":%q}`, key))
	c.mu.Lock()
	defer c.mu.Unlock()
	switch v {
	case passed:
		c.let(rule, key, asked)
	case undecided, unknown:
		c.ledger(rule, key).perhaps++
	case already:
		c.t.Errorf("a take from %s was answered like a job that was in already", rule)
	}
	return v
}

// append appends a job, and repeats it until somebody knows what became of it. Its queue asks both rules.
func (c *asker) append(id, key string) (v verdict) {
	asked := time.Since(c.begun)
	maybeIn := false
	for range 5 {
		var rule string
		v, rule = c.ask("queues/mail/jobs", fmt.Sprintf(`{"id":%q,"lane":%q,"payload":{}}`, id, key))
		c.mu.Lock()
		other := c.ledger("tenants", key)
		switch {
		case v == passed || v == already && maybeIn:
			c.let("mail.otp", key, asked)
			c.let("tenants", key, asked) // by this try or one before it
			if v == already {
				other.perhaps++ // which it gave back, unless that was lost
			}
			c.mu.Unlock()
			return v
		case v == already:
			c.t.Errorf("job %s was in already, and nobody appended it", id)
		case v == refused && rule == "tenants": // and that took nothing
		default:
			if v == refused {
				c.back++
			}
			other.perhaps++ // it may have been taken, and not given back
		}
		c.mu.Unlock()
		maybeIn = maybeIn || v == unknown
		if v != unknown && !(maybeIn && v == untouched) {
			break
		}
		c.at++
	}
	if maybeIn {
		c.mu.Lock()
		c.ledger("mail.otp", key).perhaps++
		c.mu.Unlock()
	}
	return v
}

// let notes that a rule let something through since it was asked.
func (c *askers) let(rule, key string, asked time.Duration) {
	c.ledger(rule, key).passed++
	c.passed[rule+" "+key] = append(c.passed[rule+" "+key], law.Passed{Asked: asked, Answered: time.Since(c.begun)})
}

// ask posts, and says what the answer means, which must be one of those that are documented, and which rule refuses.
func (c *asker) ask(path, body string) (v verdict, rule string) {
	status, p, err := c.send(http.MethodPost, path, body)
	said := fmt.Sprint(status, " ", p.Reason)
	var dial *net.OpError
	switch {
	case errors.As(err, &dial) && dial.Op == "dial":
		v, said = untouched, "nobody there"
	case err != nil:
		v, said = unknown, "broken off"
	case status == http.StatusAccepted, status == http.StatusOK && strings.HasSuffix(path, "/take"):
		v = passed
	case status == http.StatusOK:
		v = already
	case status == http.StatusTooManyRequests && p.Reason == "limit_reached" && p.Rule != "":
		v = refused
		if !strings.HasPrefix(p.Rule, "pulse") && p.RetryAfter() < time.Minute { // what was taken in the hour is longer
			v, said = undecided, said+", away"
		}
	case status == http.StatusServiceUnavailable && slices.Contains(
		[]string{"unavailable", "overloaded", "stopping"}, p.Reason,
	):
		v = untouched
	case status == http.StatusGatewayTimeout && p.Reason == "outcome_unknown":
		v = unknown
	default:
		c.t.Errorf("%s: %d %+v", path, status, p)
		v = unknown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.answers == nil {
		c.answers = map[string]int{}
	}
	c.answers[strings.SplitN(path, "/", 2)[0]+" "+said]++
	return v, p.Rule
}

// send sends a request to one of the ingresses. An error says that no whole answer came.
func (c *asker) send(method, path, body string) (status int, p client.Problem, err error) {
	req, err := http.NewRequest(method, c.front(c.at).url+"/v1/"+path, strings.NewReader(body))
	if err != nil {
		return 0, p, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.hc.Do(req)
	if err != nil {
		return 0, p, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 != 2 {
		err = json.Unmarshal(text, &p)
	}
	return resp.StatusCode, p, err
}
