package archive

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/internal/jsondepth"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/rules"
)

// Format is the version of the file that this package writes, and the newest that it reads. Format 1 is the same
// without rules.
const Format = 2

// line is one line of the file. Exactly one field is set.
type line struct {
	Header *Header `json:"penstock_export,omitempty"`
	// Rule is in the form of rules.Encode.
	Rule    jsontext.Value `json:"rule,omitzero"`
	Queue   *queueLine     `json:"queue,omitempty"`
	Job     *jobLine       `json:"job,omitempty"`
	End     *endLine       `json:"end,omitempty"`
	Trailer *Trailer       `json:"trailer,omitempty"`
	// Signature follows the trailer of a signed file.
	Signature *Signature `json:"signature,omitempty"`
}

// Header is the first line of the file.
type Header struct {
	Format int `json:"format"`
	// Origin, for people.
	Store      string    `json:"store"` // embedded or redis
	Schema     int       `json:"schema"`
	Partitions int       `json:"partitions"`
	Version    string    `json:"version"`
	At         time.Time `json:"at"`
	// Live means that the store may have been in use.
	Live bool `json:"live,omitzero"`
}

// Jobs is the number of jobs in each state.
type Jobs struct {
	Waiting   int64 `json:"waiting"`
	Scheduled int64 `json:"scheduled"`
	Held      int64 `json:"held"`
	Dead      int64 `json:"dead"`
	Delivered int64 `json:"delivered"`
	Cancelled int64 `json:"cancelled"`
	Expired   int64 `json:"expired"`
}

func (j *Jobs) of(s queue.State) *int64 {
	switch s {
	case queue.Waiting:
		return &j.Waiting
	case queue.Scheduled:
		return &j.Scheduled
	case queue.Held:
		return &j.Held
	case queue.Dead:
		return &j.Dead
	case queue.Delivered:
		return &j.Delivered
	case queue.Cancelled:
		return &j.Cancelled
	case queue.Expired:
		return &j.Expired
	}
	return nil
}

func (j *Jobs) add(more Jobs) {
	for s := queue.Waiting; s <= queue.Expired; s++ {
		if n := j.of(s); n != nil {
			*n += *more.of(s)
		}
	}
}

// Sum returns the total number of jobs.
func (j Jobs) Sum() int64 {
	return j.Waiting + j.Scheduled + j.Held + j.Dead + j.Delivered + j.Cancelled + j.Expired
}

func (j Jobs) String() string {
	return fmt.Sprintf("%d waiting, %d scheduled, %d held, %d dead, %d delivered, %d cancelled, %d expired", j.Waiting,
		j.Scheduled, j.Held, j.Dead, j.Delivered, j.Cancelled, j.Expired)
}

// Trailer is the last line of the file, except for a signature.
type Trailer struct {
	Rules  int64 `json:"rules"`
	Queues int64 `json:"queues"`
	Jobs   Jobs  `json:"jobs"`
	Lines  int64 `json:"lines"` // before it
	// SHA256 is the checksum of all lines before it, including line ends. It detects damage but not tampering; see
	// Signature.
	SHA256 string `json:"sha256"`
}

// queueLine is the first line of a queue.
type queueLine struct {
	Spec     jsontext.Value `json:"spec"`
	Revision int64          `json:"revision"`
	Pause    *queue.Pause   `json:"pause,omitzero"`
	Bucket   bucketLine     `json:"bucket"`
	Limits   []limitLine    `json:"limits,omitempty"`
	Learned  []learnedLine  `json:"learned,omitempty"`
	Turn     int64          `json:"turn"`
	MaxCost  int64          `json:"max_cost"`
}

type bucketLine struct {
	TAT      int64 `json:"tat"` // microseconds since 1970
	Rem      int64 `json:"rem"`
	Last     int64 `json:"last"`
	LastCost int64 `json:"last_cost"`
}

// limitLine is the state of a limit, a pace or a quota.
type limitLine struct {
	Bucket bucketLine `json:"bucket,omitzero"`
	Ends   int64      `json:"window_ends,omitzero"`
	Used   int64      `json:"window_used,omitzero"`
	Step   int64      `json:"window_step,omitzero"`
}

// learnedLine is what an estimate has learned.
type learnedLine struct {
	Unit  string `json:"unit"`
	Costs []byte `json:"costs_base64"` // a leaky.Histogram
}

func toBucketLine(b leaky.Bucket) bucketLine {
	return bucketLine{int64(b.TAT), b.Rem, int64(b.Last), b.LastCost}
}

func (b bucketLine) bucket() leaky.Bucket {
	return leaky.Bucket{TAT: leaky.Instant(b.TAT), Rem: b.Rem, Last: leaky.Instant(b.Last), LastCost: b.LastCost}
}

// endLine is the last line of a queue.
type endLine struct {
	Queue  string            `json:"queue"`
	Jobs   Jobs              `json:"jobs"`
	Held   int64             `json:"held"` // when the counters were read
	Counts queue.Counters    `json:"counts"`
	Errors []queue.LastError `json:"errors,omitempty"`
}

// jobLine is a job, or the memory of one that ended.
type jobLine struct {
	ID         string      `json:"id"`
	State      queue.State `json:"state"`
	Turn       int64       `json:"turn,omitzero"`
	AppendedAt time.Time   `json:"appended_at"`
	DueAt      time.Time   `json:"due_at,omitzero"`
	HeldAt     time.Time   `json:"held_at,omitzero"`
	EndedAt    time.Time   `json:"ended_at,omitzero"`
	Attempts   int         `json:"attempts,omitzero"`
	Reason     string      `json:"reason,omitzero"`
	Returned   bool        `json:"returned,omitzero"`   // from the overflow
	HoldsLane  bool        `json:"holds_lane,omitzero"` // up, in an ordered queue
	Cost       int64       `json:"cost"`
	Timeline   []attempt   `json:"timeline,omitempty"`

	Lane        string            `json:"lane,omitzero"`
	Batch       string            `json:"batch,omitzero"`
	Costs       map[string]int64  `json:"costs,omitempty"`
	Priority    int               `json:"priority,omitzero"`
	NotBefore   time.Time         `json:"not_before,omitzero"`
	ExpiresAt   time.Time         `json:"expires_at,omitzero"`
	ContentType string            `json:"content_type,omitzero"`
	Headers     map[string]string `json:"headers,omitempty"`
	Payload     []byte            `json:"payload_base64,omitempty"`
	// Fingerprint replaces the payload and other fields of jobs that ended.
	Fingerprint string `json:"fingerprint,omitzero"`
}

// attempt is an attempt in a job's timeline.
type attempt struct {
	At      time.Time            `json:"at"`
	EndedAt time.Time            `json:"ended_at"`
	Drainer string               `json:"drainer,omitzero"`
	Outcome queue.AttemptOutcome `json:"outcome"`
	Answer  string               `json:"answer,omitzero"`
}

func (l *line) encode() ([]byte, error) {
	text, err := json.Marshal(l, json.Deterministic(true))
	return append(text, '\n'), err
}

// maxLineDepth is the maximum nesting of a spec plus the line around it.
const maxLineDepth = jsondepth.Max + 8

func decode(text []byte) (l line, err error) {
	if err := jsondepth.Check(text, maxLineDepth); err != nil {
		return l, err
	}
	if err := json.Unmarshal(text, &l, json.RejectUnknownMembers(true)); err != nil {
		return l, err
	}
	n := 0
	for _, there := range []bool{
		l.Header != nil, l.Rule != nil, l.Queue != nil, l.Job != nil, l.End != nil,
		l.Trailer != nil, l.Signature != nil,
	} {
		if there {
			n++
		}
	}
	if n != 1 {
		return l, fmt.Errorf("must have one of penstock_export, rule, queue, job, end, trailer and signature, not %d", n)
	}
	return l, nil
}

// ruleOf parses the line of a rule.
func ruleOf(text jsontext.Value) (rules.Rule, error) {
	r, err := rules.Parse(text)
	if err == nil {
		err = rules.ValidateName(r.Name)
	}
	return r, err
}

func queueToLine(q *move.Queue) (*queueLine, error) {
	spec, err := queue.EncodeSpec(q.Spec)
	var pause *queue.Pause
	if p := q.Pause; p.On() {
		p.Reason, p.Since, p.Until = valid(p.Reason), p.Since.UTC(), p.Until.UTC()
		pause = &p
	}
	l := &queueLine{
		Spec: spec, Revision: q.Revision, Pause: pause, Bucket: toBucketLine(q.Bucket), Turn: q.Turn,
		MaxCost: q.MaxCost,
	}
	for _, s := range q.Limits {
		l.Limits = append(l.Limits, limitLine{toBucketLine(s.Bucket), int64(s.Window.Ends), s.Window.Used, s.Window.Step})
	}
	for _, c := range q.Learned {
		l.Learned = append(l.Learned, learnedLine{c.Unit, []byte(c.Costs)})
	}
	return l, err
}

func (l *queueLine) queue(specs *queue.SpecParser) (q move.Queue, err error) {
	if q, err = l.rest(); err != nil {
		return q, err
	}
	if q.Spec, err = specs.Parse(l.Spec); err == nil {
		err = names.Validate(q.Spec.Name)
	}
	if err == nil && len(l.Limits) != 0 && len(l.Limits) != len(q.Spec.Limits) {
		err = fmt.Errorf("it has %d limits but %d states of limits", len(q.Spec.Limits), len(l.Limits))
	}
	return q, err
}

// rest returns the queue without its spec.
func (l *queueLine) rest() (q move.Queue, err error) {
	if l.Revision < 0 || l.MaxCost < 1 || l.MaxCost > leaky.MaxCost || l.Turn < 0 || l.Turn >= 1<<53 {
		err = fmt.Errorf("invalid revision %d, max_cost %d or turn %d", l.Revision, l.MaxCost, l.Turn)
	}
	instants := []int64{l.Bucket.TAT, l.Bucket.Last}
	for _, m := range l.Limits {
		instants = append(instants, m.Bucket.TAT, m.Bucket.Last, m.Ends, m.Used, m.Step)
		q.Limits = append(q.Limits,
			queue.LimitState{
				Bucket: m.Bucket.bucket(),
				Window: leaky.Window{Ends: leaky.Instant(m.Ends), Used: m.Used, Step: m.Step},
			})
	}
	for _, c := range l.Learned {
		q.Learned = append(q.Learned, queue.LearnedCosts{Unit: c.Unit, Costs: leaky.Histogram(c.Costs)})
	}
	if err == nil {
		err = queue.ValidateLearned(q.Learned)
	}
	for _, n := range instants {
		if err == nil && (n < 0 || n >= 1<<53) {
			err = fmt.Errorf("invalid instant %d in its buckets", n)
		}
	}
	if p := l.Pause; p != nil {
		q.Pause = *p
		q.Pause.Normalize()
		err = errors.Join(err, q.Pause.Validate(), (&audit.Actor{Name: p.By, Note: p.Note}).Validate())
	}
	q.Revision, q.Turn, q.MaxCost = l.Revision, l.Turn, l.MaxCost
	q.Bucket = l.Bucket.bucket()
	return q, err
}

func jobToLine(m *move.Job) (*jobLine, error) {
	l := &jobLine{
		ID: m.ID, State: m.State, AppendedAt: m.AppendedAt.UTC(), Attempts: m.Attempts, Reason: valid(m.Reason),
		Returned: m.Back, HoldsLane: m.HoldsLane, Cost: m.Cost,
	}
	switch m.State {
	case queue.Waiting:
		l.Turn = m.Turn
	case queue.Scheduled:
		l.Turn, l.DueAt = m.Turn, m.At.UTC()
	case queue.Held:
		l.Turn, l.HeldAt = m.Turn, m.At.UTC()
	default:
		l.EndedAt = m.At.UTC()
	}
	if list, err := jobrecord.UnpackTimeline(m.Timeline); err == nil { // an unreadable timeline is left out
		for _, a := range list {
			l.Timeline = append(l.Timeline,
				attempt{a.At.UTC(), a.EndedAt.UTC(), valid(a.Drainer), a.Outcome, valid(a.Answer)})
		}
	}
	if !keepsRecord(m.State) {
		l.Fingerprint = strconv.FormatUint(m.Fingerprint, 16)
		return l, nil
	}
	var j queue.Job
	if err := jobrecord.Unpack(m.Record, &j); err != nil {
		return nil, err
	}
	l.Cost, l.Lane, l.Priority, l.Headers, l.Payload = j.Cost, j.Lane, j.Priority, j.Headers, j.Payload
	l.Batch, l.NotBefore, l.ExpiresAt, l.Costs = j.Batch, j.NotBefore, j.ExpiresAt, j.Costs
	if j.ContentType != queue.DefaultContentType {
		l.ContentType = j.ContentType
	}
	return l, nil
}

func keepsRecord(s queue.State) bool {
	return !s.Ended() || s == queue.Dead
}

// job returns the job to import into a queue.
func (l *jobLine) job(name string) (m move.Job, err error) {
	m = move.Job{
		ID: l.ID, State: l.State, Turn: l.Turn, AppendedAt: l.AppendedAt, Attempts: l.Attempts, Reason: l.Reason,
		Back: l.Returned, HoldsLane: l.HoldsLane, Cost: l.Cost,
	}
	switch l.State {
	case queue.Waiting:
	case queue.Scheduled:
		m.At = l.DueAt
	case queue.Held:
		m.At = l.HeldAt
	default:
		m.At = l.EndedAt
	}
	for _, a := range l.Timeline {
		m.Timeline = jobrecord.AppendAttempt(m.Timeline,
			queue.Attempt{At: a.At, EndedAt: a.EndedAt, Drainer: a.Drainer, Outcome: a.Outcome, Answer: a.Answer})
	}
	if keepsRecord(l.State) {
		j := queue.Job{
			Queue: name, ID: l.ID, Payload: l.Payload, ContentType: l.ContentType, Headers: l.Headers, Cost: l.Cost,
			Costs: l.Costs, Lane: l.Lane, Batch: l.Batch, Priority: l.Priority,
			NotBefore: l.NotBefore, ExpiresAt: l.ExpiresAt,
		}
		j.Normalize()
		if err := j.Validate(); err != nil {
			return m, err
		}
		m.Record, m.Fingerprint = jobrecord.Pack(&j), j.Fingerprint()
	} else if m.Fingerprint, err = strconv.ParseUint(l.Fingerprint, 16, 64); err != nil {
		return m, fmt.Errorf("fingerprint %q: %w", l.Fingerprint, err)
	}
	if bad := m.Validate(); bad != nil {
		return m, bad
	}
	return m, nil
}

// valid returns valid UTF-8 that is no longer than s.
func valid(s string) string { return strings.ToValidUTF8(s, "?") }

// laxJSON decodes an object and ignores unknown members.
func laxJSON(text []byte, v any) error { return json.Unmarshal(text, v) }
