package httptarget

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
)

// budgetFields are the two fields of a budget: what remains, and when it is renewed.
type budgetFields struct {
	unit             string // empty for requests
	remaining, reset string
}

// knownFields has the pairs of fields of each named value of queue.Spec.Learn.
var knownFields = map[string][]budgetFields{
	// https://developers.openai.com/docs/guides/rate-limits
	"openai": {
		{"", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	},
	// https://platform.claude.com/docs/en/api/rate-limits
	"anthropic": {
		{"", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"tokens", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"input_tokens", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"output_tokens", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	},
	// https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
	"github": {{"", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"}},
}

// headerShopify has how full the bucket of an app is, such as 32/40. See
// https://shopify.dev/docs/api/admin-rest/usage/rate-limits
const headerShopify = "X-Shopify-Shop-Api-Call-Limit"

// mostRemaining is the greatest number that is taken for what remains.
const mostRemaining = 1e12

// headerResource names the budget that an answer of GitHub speaks of. Search, for example, has a smaller one.
const headerResource = "X-Ratelimit-Resource"

// budgetOf returns the receiver's remaining budget in jobs, as the headers of an answer state it, by the queue's Learn;
// zero if they do not. perCall is what a call of the queue uses on average in each unit that its limits count. Of
// several budgets, the one that lasts least counts. The error names a field that cannot be true.
func budgetOf(spec *queue.Spec, h http.Header, now time.Time, perCall map[string]float64) (queue.Budget, error) {
	switch spec.Learn {
	case "":
		return queue.Budget{}, nil
	case "ietf":
		return tightest(append(draft(h), triple(h, now)...))
	case "shopify":
		return fillLevel(spec, h)
	case "github":
		if of := h.Get(headerResource); of != "" && of != "core" {
			return queue.Budget{}, nil
		}
	}
	known, ok := knownFields[spec.Learn]
	if !ok {
		remaining, reset, _ := queue.LearnFields(spec.Learn)
		known = []budgetFields{{"", remaining, reset}}
	}
	var least queue.Budget
	var wrong error
	for i := range known {
		unit := known[i].unit
		each := perCall[unit]
		if unit != "" && each == 0 { // no limit counts it, or calls use nothing of it
			continue
		}
		b, err := known[i].budget(h, now)
		if err != nil {
			wrong = err
			continue
		}
		if unit != "" {
			// At least one call: such budgets are refilled all the time, and a queue that stops until the whole is there again
			// would waste most of it. A call that comes too early is refused, and stops the queue for as long as it must.
			b.Remaining = int64(min(max(1, float64(b.Remaining)/each), queue.MaxRemaining))
		}
		if lasting(b) > lasting(least) {
			least = b
		}
	}
	return least, wrong
}

// lasting returns the time between two jobs by which a budget lasts until it is renewed.
func lasting(b queue.Budget) float64 { return b.Reset.Seconds() / float64(b.Remaining+1) }

// budget returns the budget that two fields state, in their unit; zero if they do not.
func (f *budgetFields) budget(h http.Header, now time.Time) (queue.Budget, error) {
	left, ok, err := single(h, f.remaining)
	if err != nil || !ok {
		return queue.Budget{}, err
	}
	remaining, err := remainingOf(f.remaining, left)
	if err != nil {
		return queue.Budget{}, err
	}
	again, ok, err := single(h, f.reset)
	if err != nil || !ok {
		return queue.Budget{}, err
	}
	in, ok := resetIn(again, h, now)
	if !ok {
		return queue.Budget{}, fmt.Errorf("%s: %q is not a time: seconds, a duration or a date", f.reset, again)
	}
	return budget(f.reset, remaining, in)
}

// single returns a field, and whether an answer has it.
func single(h http.Header, name string) (value string, ok bool, err error) {
	values := h.Values(name)
	switch len(values) {
	case 0:
		return "", false, nil
	case 1:
		return strings.TrimSpace(values[0]), true, nil
	}
	return "", false, fmt.Errorf("%s: appears %d times; want once", name, len(values))
}

func remainingOf(name, text string) (int64, error) {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || !(n >= 0 && n <= mostRemaining) {
		return 0, fmt.Errorf("%s: %q is not a number from 0 to %.0f", name, text, mostRemaining)
	}
	return int64(min(n, queue.MaxRemaining)), nil
}

// resetIn returns how far ahead an instant is: given in seconds, as a Unix time in seconds or milliseconds, as a
// duration such as 6m0s, or as a date.
func resetIn(text string, h http.Header, now time.Time) (time.Duration, bool) {
	if n, ok := number(text); ok {
		return seconds(ahead(n, h, now)), n >= 0
	}
	if d, err := time.ParseDuration(text); err == nil {
		return max(0, d), d >= 0
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		at, err = http.ParseTime(text)
	}
	return max(0, at.Sub(clock(h, now))), err == nil
}

func budget(field string, remaining int64, in time.Duration) (queue.Budget, error) {
	if in > queue.MaxReset {
		return queue.Budget{}, fmt.Errorf("%s: %v is more than %v ahead", field, in.Round(time.Second), queue.MaxReset)
	}
	return queue.Budget{Remaining: remaining, Reset: max(in, time.Microsecond)}, nil // renewed already: all is left
}

// tightest returns the budget that lasts least. Budgets that cannot be true are left out, and the error names one.
func tightest(list []stated) (least queue.Budget, wrong error) {
	for _, s := range list {
		if !s.known || s.in == 0 {
			continue
		}
		if !(s.left >= 0 && s.left <= mostRemaining) {
			wrong = fmt.Errorf("%s: %v remain, which is not a number from 0 to %.0f", s.field, s.left, mostRemaining)
			continue
		}
		b, err := budget(s.field, int64(min(math.Floor(s.left), queue.MaxRemaining)), s.in)
		if err != nil {
			wrong = err
			continue
		}
		if lasting(b) > lasting(least) {
			least = b
		}
	}
	return least, wrong
}

// fillLevel returns the budget of a leaky bucket that leaks at the queue's rate.
func fillLevel(spec *queue.Spec, h http.Header) (queue.Budget, error) {
	text, ok, err := single(h, headerShopify)
	if err != nil || !ok {
		return queue.Budget{}, err
	}
	used, size, _ := strings.Cut(text, "/")
	level, err := remainingOf(headerShopify, used)
	if err != nil {
		return queue.Budget{}, err
	}
	most, err := remainingOf(headerShopify, size)
	if err != nil {
		return queue.Budget{}, err
	}
	in := min(float64(level)*spec.Rate.Interval().Seconds(), 2*queue.MaxReset.Seconds())
	return budget(headerShopify, max(0, most-level), seconds(in))
}
