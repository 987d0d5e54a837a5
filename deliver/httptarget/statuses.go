package httptarget

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/deliver/setting"
)

// The meanings of answers.
const (
	Delivered = "delivered"
	Retry     = "retry"     // spends an attempt
	Dead      = "dead"      // not retried
	Throttled = "throttled" // nothing leaves the queue for as long as the answer says; spends no attempt
	Down      = "down"      // the receiver is taken to be down; spends no attempt
	// MaybeThrottled, which is only a setting, is Throttled if the answer has Retry-After, or fields that say that no
	// requests remain. Otherwise it is the default meaning. Some receivers use one status for both a missing permission
	// and too many requests.
	MaybeThrottled = "maybe_throttled"
)

var meanings = []string{Dead, Delivered, Down, MaybeThrottled, Retry, Throttled}

// hopeless are statuses about the request itself, which would be the same after a retry. Statuses about the sender, the
// URL or the time are not hopeless, because the receiver may fix the cause.
var hopeless = []int{400, 405, 410, 413, 414, 415, 422, 431}

// outcome returns the meaning of an answer for a target. asked reports whether the answer has a valid Retry-After.
func (t *Target) outcome(answer *http.Response, asked bool, now time.Time) string {
	status := answer.StatusCode
	if len(t.Statuses) > 0 {
		for _, key := range []string{strconv.Itoa(status), strconv.Itoa(status/100) + "xx"} {
			switch meaning, ok := t.Statuses[key]; {
			case !ok:
			case meaning != MaybeThrottled:
				return meaning
			case asked, throttle(answer.Header, now).For > 0:
				return Throttled
			default:
				return byDefault(status, asked)
			}
		}
	}
	return byDefault(status, asked)
}

// byDefault returns the meaning of a status for a target without settings for it.
func byDefault(status int, asked bool) string {
	switch {
	case status >= 200 && status <= 299:
		return Delivered
	case status == 429, status == 503 && asked:
		return Throttled
	case slices.Contains(hopeless, status):
		return Dead
	}
	return Retry
}

func checkStatuses(at string, statuses map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(statuses)) {
		if !isStatus(key) {
			return setting.Error(
				at, key, `is not a status; write one such as "409", or a class of statuses, "2xx" to "5xx"`,
			)
		}
		if !slices.Contains(meanings, statuses[key]) {
			return setting.Error(at+"."+key, statuses[key], "must be delivered, retry, dead, throttled, maybe_throttled or down")
		}
	}
	return nil
}

// isStatus reports whether a text is 200 to 599, or a class such as 2xx.
func isStatus(key string) bool {
	if len(key) != 3 || key[0] < '2' || key[0] > '5' {
		return false
	}
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	return key[1:] == "xx" || digit(key[1]) && digit(key[2])
}
