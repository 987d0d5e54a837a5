package client

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ProxyURL returns the base URL of a queue's pacing proxy, for any HTTP library or SDK. The library sends a token of
// Penstock as its key. Each call waits for its turn in the queue and goes to the queue's target. A client of a unix://
// address returns a URL at localhost, for libraries that can dial the socket.
func (c *Client) ProxyURL(queue string) string { return c.base + Path("proxy", queue) }

// RetryThrottled is the ProxyOptions.Retry of calls that wait for another turn when the receiver answers that there are
// too many requests.
const RetryThrottled = "throttled"

// ProxyOptions are the options of a call through the proxy. The zero value is the default.
type ProxyOptions struct {
	Lane string
	Cost int64 // 0 is 1
	// Costs are what the call will use of other units, such as tokens; the default is the queue's estimate.
	Costs    map[string]int64
	Priority int
	// Wait is the maximum wait for a turn; 0 is 30 s.
	Wait  time.Duration
	Retry string // RetryThrottled, or empty for no retries
}

// Header returns the header fields that give the options to the proxy. The server checks their values.
func (o ProxyOptions) Header() http.Header {
	h := http.Header{}
	set := func(name, value string, given bool) {
		if given {
			h.Set(name, value)
		}
	}
	set("Penstock-Lane", o.Lane, o.Lane != "")
	set("Penstock-Cost", strconv.FormatInt(o.Cost, 10), o.Cost != 0)
	set("Penstock-Costs", costsText(o.Costs), len(o.Costs) > 0)
	set("Penstock-Priority", strconv.Itoa(o.Priority), o.Priority != 0)
	set("Penstock-Wait", o.Wait.String(), o.Wait != 0)
	set("Penstock-Retry", o.Retry, o.Retry != "")
	return h
}

// costsText returns costs as a header field has them.
func costsText(costs map[string]int64) string {
	var list []string
	for _, unit := range slices.Sorted(maps.Keys(costs)) {
		list = append(list, unit+"="+strconv.FormatInt(costs[unit], 10))
	}
	return strings.Join(list, ", ")
}

// maxProblem is the maximum size of a problem, in bytes.
const maxProblem = 64 << 10

// ProblemOf returns the problem in a response of the proxy if Penstock refused the call, such as a Problem with reason
// no_turn. For a response of the receiver it returns false, whatever the status. The body can still be read. Errors of
// SDKs that have the response work too: ProblemOf(err.Response).
func ProblemOf(resp *http.Response) (*Problem, bool) {
	if resp == nil || resp.Body == nil || passedOn(resp.Header) {
		return nil, false
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind != "application/problem+json" {
		return nil, false
	}
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxProblem)) // the next reader of the body gets the error again
	resp.Body = reread{io.MultiReader(bytes.NewReader(text), resp.Body), resp.Body}
	p := problemOf(resp, text)
	if p.Reason == ReasonHTTPError {
		return nil, false
	}
	return p, true
}

// reread is a body whose beginning is read again.
type reread struct {
	io.Reader
	io.Closer
}

// passedOn reports whether a response came from the receiver. The proxy adds its metric to Server-Timing then, but not
// to its own refusals.
func passedOn(head http.Header) bool {
	for _, value := range head["Server-Timing"] {
		for metric := range strings.SplitSeq(value, ",") {
			if name, _, _ := strings.Cut(metric, ";"); strings.TrimSpace(name) == "penstock" {
				return true
			}
		}
	}
	return false
}
