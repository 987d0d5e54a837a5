// Package doctor looks at an installation and says what is wrong with it.
//
// It promises that looking changes nothing and delivers nothing, that each thing that is wrong comes with the command
// that mends it, and that one check which cannot be made keeps no other from being made. It refuses to mend.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/penstock/penstock/deferred"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/redisq"
)

// Verdict is what a check comes to.
type Verdict string

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning Verdict = "warning" // it works, and may not for long, or not as somebody thinks
	Wrong   Verdict = "wrong"
)

// Finding is one thing that was found.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	What    string  `json:"what"`
	// Do is the command that mends it, or that tells more; empty if nothing is to be done.
	Do string `json:"do,omitempty"`
}

// Patient is the installation. A nil field is what is not looked at.
type Patient struct {
	// API is an ingress', or one over the store in this process if Direct. Without it Unreached says why.
	API       *client.Client
	Direct    bool
	Unreached error
	// Reach is the command that makes it answer, or tells why it does not, and Start what starts a drainer of the store.
	Reach, Start string
	// Version is that of who looks.
	Version string
	// Servers looks at the Redis of the store.
	Servers func(context.Context) ([]redisq.Server, error)
	// Overflow looks at the streams on NATS.
	Overflow func(context.Context) ([]deferred.StreamState, error)
	// Target checks the deliver part of a queue as an ingress does, and Dial connects as a drainer does.
	Target func(name string, deliver json.RawMessage) error
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// Disk is the directory of an embedded store, and Free how much room its disk has.
	Disk string
	Free func(dir string) (uint64, error)
	// Files are those that only their owner may touch.
	Files []File
}

// File is one that others must not read or change.
type File struct {
	Path  string
	Check func(path string) error // one that is not there is fs.ErrNotExist
	Mend  string
}

const (
	// checkPatience is how long a check may take: a server that does not answer is a finding too.
	checkPatience = 15 * time.Second
	// mostFindings is how many of a check are told.
	mostFindings = 20
)

// visit is a patient that is looked at.
type visit struct {
	*Patient
	queues   []wire.Queue
	drainers wire.Drainers
	asked    reading // of the clock of the store
	err      error   // why there are none of those
	toAsynq  int     // how many queues have an asynq target

	check string
	found []Finding
	more  int // that are not told
}

// checks are all, in the order in which they are told. One that finds nothing does not concern the patient.
var checks = []struct {
	name string
	look func(*visit, context.Context)
}{
	{"store", (*visit).store},
	{"redis", (*visit).redis},
	{"clock", (*visit).clock},
	{"overflow", (*visit).overflow},
	{"drainers", (*visit).drained},
	{"queues", (*visit).standing},
	{"targets", (*visit).targets},
	{"disk", (*visit).disk},
	{"files", (*visit).files},
}

// Checks are the names of all checks, in order.
func Checks() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine makes all checks, and returns what they found.
func Examine(ctx context.Context, p *Patient) []Finding {
	v := &visit{Patient: p}
	v.read(ctx)
	for _, c := range checks {
		looking, cancel := context.WithTimeout(ctx, checkPatience)
		v.check, v.more = c.name, -mostFindings
		c.look(v, looking)
		cancel()
		if v.more > 0 {
			v.found = append(v.found, Finding{c.name, Warning, fmt.Sprintf("and %d more", v.more), "penstock queue ls"})
		}
	}
	return v.found
}

// Worst is the worst verdict.
func Worst(found []Finding) Verdict {
	worst := OK
	for _, f := range found {
		if f.Verdict == Wrong || worst == OK {
			worst = f.Verdict
		}
	}
	return worst
}

// read asks once for what several checks are about.
func (v *visit) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 4*checkPatience) // there may be many queues
	defer cancel()
	if v.err = v.Unreached; v.API == nil {
		return
	}
	v.asked.before = time.Now()
	v.drainers, v.err = v.API.Drainers(ctx)
	v.asked.after, v.asked.time = time.Now(), v.drainers.Now
	if v.err == nil {
		v.queues, v.err = v.API.Queues(ctx)
	}
}

func (v *visit) ok(format string, args ...any) { v.tell(OK, "", format, args...) }

func (v *visit) warn(do, format string, args ...any) { v.tell(Warning, do, format, args...) }

func (v *visit) wrong(do, format string, args ...any) { v.tell(Wrong, do, format, args...) }

func (v *visit) tell(verdict Verdict, do, format string, args ...any) {
	if v.more++; v.more <= 0 {
		v.found = append(v.found, Finding{v.check, verdict, fmt.Sprintf(format, args...), do})
	}
}

// silent reports whether a check has found nothing, so that it may say that all is well.
func (v *visit) silent() bool { return v.more == -mostFindings }
