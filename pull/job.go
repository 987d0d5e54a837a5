package pull

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/departure"
	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/queue"
)

// job is a granted job and its window.
type job struct {
	queue.Reservation
	departure.Window
	latest time.Time // the last instant to hand it over
	text   []byte    // the job as JSON, except what depends on when it is handed over
}

// newJob returns a granted job. It encodes the job now, because little time is left between departure and answer.
func newJob(r *queue.Reservation, w departure.Window, spec *queue.Spec) *job {
	j := &job{Reservation: *r, Window: w, latest: w.Latest(departure.Slack(spec))}
	j.text = appendJob(nil, j)
	j.Payload = nil // text has it
	return j
}

func (j *job) lease() queue.Lease { return departure.LeaseOf(&j.Reservation) }

// Token returns the token by which a worker names its lease: the fence, and the number of the attempt, on which a
// backoff depends.
func Token(fence queue.Fence, attempt int) string { return strconv.Itoa(attempt) + "-" + string(fence) }

// ParseToken parses a token made by Token.
func ParseToken(token string) (fence queue.Fence, attempt int, ok bool) {
	number, rest, ok := strings.Cut(token, "-")
	attempt, err := strconv.Atoi(number)
	return queue.Fence(rest), attempt, ok && err == nil && attempt > 0 && rest != ""
}

// appendJob appends the part of a job's JSON that is known when it is granted, without the closing brace.
func appendJob(b []byte, j *job) []byte {
	b = appendText(append(b, '{'), "id", j.ID)
	if queue.IsJSON(j.ContentType) && jsondepth.Check(j.Payload, jsondepth.Max) == nil &&
		jsontext.Value(j.Payload).IsValid(jsontext.AllowDuplicateNames(true)) {
		b = append(append(b, `,"payload":`...), j.Payload...)
	} else {
		b = append(b, `,"payload_base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, j.Payload), '"')
	}
	b = appendText(append(b, ','), "content_type", j.ContentType)
	if len(j.Headers) > 0 {
		b = append(b, `,"headers":{`...)
		for i, name := range sortedNames(j.Headers) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendText(b, name, j.Headers[name])
		}
		b = append(b, '}')
	}
	if j.Lane != "" {
		b = appendText(append(b, ','), "lane", j.Lane)
	}
	if j.Priority != 0 {
		b = strconv.AppendInt(append(b, `,"priority":`...), int64(j.Priority), 10)
	}
	b = strconv.AppendInt(append(b, `,"cost":`...), j.Cost, 10)
	if len(j.Costs) > 0 {
		b = append(b, `,"costs":{`...)
		for i, unit := range sortedNames(j.Costs) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(append(append(b, '"'), unit...), `":`...)
			b = strconv.AppendInt(b, j.Costs[unit], 10)
		}
		b = append(b, '}')
	}
	b = strconv.AppendInt(append(b, `,"attempt":`...), int64(j.Attempt), 10)
	b = appendInstant(append(b, ','), "appended_at", j.AppendedAt)
	return appendText(append(b, ','), "lease", Token(j.Fence, j.Attempt))
}

// appendAnswer appends the answer with jobs that are handed over now.
func appendAnswer(b []byte, jobs []*job, now time.Time) []byte {
	b = append(b, `{"jobs":[`...)
	for i, j := range jobs {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, j.text...), ',')
		b = appendInstant(b, "expires_at", j.LeaseEnd)
		b = strconv.AppendInt(append(b, `,"expires_in_ms":`...), max(0, j.LeaseEnd.Sub(now).Milliseconds()), 10)
		b = append(b, '}')
	}
	return append(b, "]}\n"...)
}

func appendText(b []byte, name, value string) []byte {
	b, _ = jsontext.AppendQuote(b, name) // the error only means that invalid UTF-8 was replaced
	b = append(b, ':')
	b, _ = jsontext.AppendQuote(b, value)
	return b
}

func appendInstant(b []byte, name string, at time.Time) []byte {
	b = append(append(append(b, '"'), name...), `":"`...)
	b = at.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00")
	return append(b, '"')
}

func sortedNames[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
