package wire

import "time"

// Verdict is how bad a problem is.
type Verdict string

// The verdicts.
const (
	Warning Verdict = "warning" // it works, but perhaps not for long or not as expected
	Wrong   Verdict = "wrong"
)

// Attention lists the problems that need a person, the worst first.
type Attention struct {
	// AsOf is when the queues were read.
	AsOf     time.Time `json:"as_of"`
	Problems []Trouble `json:"problems"`
	// Wrong and Warnings count the problems by verdict, on all pages.
	Wrong    int `json:"wrong"`
	Warnings int `json:"warnings"`
	// Next is the offset of the next page; absent on the last.
	Next int `json:"next,omitempty"`
}

// Trouble is a problem of a queue or of the store, with its fix.
type Trouble struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	// Queue is absent for a problem of the store.
	Queue string `json:"queue,omitempty"`
	// Text is a sentence without a period. Since, if present, completes it: "for 12 minutes".
	Text  string     `json:"text"`
	Since *time.Time `json:"since,omitempty"`
	// Until is when the problem ends by itself.
	Until *time.Time `json:"until,omitempty"`
	// Reason is the receiver's answer or the reason of the pause, and By the person who paused the queue.
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	// Jobs is the number of jobs that the fix is about.
	Jobs int64 `json:"jobs,omitempty"`
	Fix  Fix   `json:"fix"`
}

// Fix is what a person can do about a problem.
type Fix struct {
	Action string `json:"action"`
	Label  string `json:"label"`
	// Queue is the queue to act on: the queue of the problem or its parent.
	Queue   string `json:"queue,omitempty"`
	Command string `json:"command"`
}
