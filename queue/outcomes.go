package queue

// AppendOutcome is what became of a job on arrival.
type AppendOutcome uint8

// The outcomes of Append. Engines exchange them by number.
const (
	Failed       AppendOutcome = iota // could not be decided; Err says why
	Accepted                          // it is in
	Duplicate                         // it was in already; State says where it is now
	Conflict                          // another job has this id
	Full                              // no room; come back after RetryAfter
	Invalid                           // Err is an *invalid.Error
	UnknownQueue                      // there is no such queue
	Lapsed                            // its expires-at has passed, or would before it departs: then with the ETA
	SetAside                          // of Offer: recorded as deferred; store it
	OverflowFull                      // of Offer: it may wait, but too many do; come back after RetryAfter
	LaneFull                          // its lane has as many jobs as it may; come back after RetryAfter
	ScheduleFull                      // as many jobs are scheduled as may be; come back after RetryAfter
	LimitReached                      // a rule refuses it, see Rules; come back after RetryAfter
)

// Refusal is why something was not done, as everybody is told who asked for it.
type Refusal struct {
	Code   string // for programs: never renamed
	Status int    // of HTTP
	Title  string // the same for people
	Field  string // the field at fault, if it is always the same
	Detail string // what to do about it, if that can be said beforehand

	counter string // of the queue, that counts how often it is answered, if one does
}

// Again reports whether it is worth asking again later.
func (r *Refusal) Again() bool { return r != nil && (r.Status == 429 || r.Status >= 500) }

// outcomes has a row for each outcome: its name in logs, metrics and scripts, and how it is refused. Docs, OpenAPI,
// problem answers, the counting of refusals by both engines and the constants of the scripts follow from it. What is no
// refusal has no counter here: redisq counts jobs that it takes all at once, and not one by one by their outcomes.
var outcomes = [...]struct {
	name    string
	refusal *Refusal // nil if it is not one, or if it is that of Err
	engine  bool     // whether nobody but an engine answers it
}{
	Failed:    {name: "failed"},
	Accepted:  {name: "accepted"},
	Duplicate: {name: "duplicate"},
	Invalid:   {name: "invalid"},
	SetAside:  {name: "set_aside"},
	Conflict: {name: "conflict", engine: true, refusal: &Refusal{
		Status: 409, Title: "another job has this id", Field: "id",
		Detail: "the queue has or had a job of this id with another payload, content type, lane or cost; nothing was " +
			"changed. Payloads are compared byte by byte: spaces count, too",
	}},
	Full: {name: "full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "the queue is full",
		Detail: "the queue is full; retry_after_ms is when room is expected for you",
	}},
	UnknownQueue: {name: "unknown_queue", engine: true, refusal: &Refusal{Status: 404, Title: "no such queue"}},
	Lapsed: {name: "expired", refusal: &Refusal{
		Status: 422, Title: "the job has expired", Field: "expires_at",
		Detail: "has passed: the job was not taken",
	}},
	OverflowFull: {name: "overflow_full", refusal: &Refusal{
		counter: "refused", Status: 429, Title: "too many jobs are deferred",
		Detail: "the queue has no room, and as many of its jobs are deferred as may be; retry_after_ms is when room " +
			"is expected for you",
	}},
	LaneFull: {name: "lane_full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "the lane is full", Field: "lane",
		Detail: "the job's lane has as many jobs as it may, whatever room the queue has; retry_after_ms is when to " +
			"come back",
	}},
	ScheduleFull: {name: "schedule_full", engine: true, refusal: &Refusal{
		counter: "refused", Status: 429, Title: "too many jobs are scheduled", Field: "not_before",
		Detail: "as many jobs of the queue are scheduled as may be; retry_after_ms is when the first of them is due",
	}},
	LimitReached: {name: "limit_reached", refusal: &Refusal{
		counter: "refused", Status: 429, Title: "a rule refuses it",
	}},
}

func init() {
	for _, row := range outcomes {
		if row.refusal != nil {
			row.refusal.Code = row.name
		}
	}
}

func (o AppendOutcome) String() string { return outcomes[o].name }

// Refusal is how the outcome is refused; nil if it is none, or if Err says it.
func (o AppendOutcome) Refusal() *Refusal { return outcomes[o].refusal }

// Counter names the counter of a queue that counts how often it is so refused; "" if none does.
func (o AppendOutcome) Counter() string {
	if r := o.Refusal(); r != nil {
		return r.counter
	}
	return ""
}

// OnlyByEngine reports whether nobody but an engine answers it, which then does not read the job's payload any more.
func (o AppendOutcome) OnlyByEngine() bool { return outcomes[o].engine }

// AppendOutcomes are all outcomes, by number.
func AppendOutcomes() []AppendOutcome {
	all := make([]AppendOutcome, len(outcomes))
	for n := range all {
		all[n] = AppendOutcome(n)
	}
	return all
}
