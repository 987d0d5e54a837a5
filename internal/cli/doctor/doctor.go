// Package doctor finds problems of an installation.
//
// It promises to change and deliver nothing, to add to each problem a command that fixes it, and to go on if a check
// fails. It does not fix problems itself.
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

// Verdict is the result of a check.
type Verdict = wire.Verdict

// The verdicts.
const (
	OK      Verdict = "ok"
	Warning         = wire.Warning
	Wrong           = wire.Wrong
)

// Finding is one result of a check.
type Finding struct {
	Check   string  `json:"check"`
	Verdict Verdict `json:"verdict"`
	What    string  `json:"what"`
	// Do is a command that fixes or explains the problem; may be empty.
	Do string `json:"do,omitempty"`
}

// Patient is the installation to examine. Checks of nil fields are skipped.
type Patient struct {
	// API is the API of an ingress, or, with Direct, of the store opened in this process. If it is nil, Unreached says
	// why.
	API       *client.Client
	Direct    bool
	Unreached error
	// Reach is a command that makes the API answer or explains why it does not. Start is a command that starts a drainer.
	Reach, Start string
	// Version is the version of this program.
	Version string
	// Servers returns the Redis servers of the store.
	Servers func(context.Context) ([]redisq.Server, error)
	// Overflow returns the streams on NATS.
	Overflow func(context.Context) ([]deferred.StreamState, error)
	// Target validates a target as an ingress does, and Dial connects as a drainer does.
	Target func(name string, deliver json.RawMessage) error
	Dial   func(ctx context.Context, network, address string) (net.Conn, error)
	// Disk is the directory of an embedded store, and Free returns the free bytes on its disk.
	Disk string
	Free func(dir string) (uint64, error)
	// Files are the files that must be private.
	Files []File
}

// File is a file that others must not read or change.
type File struct {
	Path  string
	Check func(path string) error // fs.ErrNotExist skips it
	Fix   string                  // the command that makes it private
}

const (
	// checkPatience is the maximum time of a check. A server that does not answer is a finding too.
	checkPatience = 15 * time.Second
	// maxFindings is the maximum number of findings of a check.
	maxFindings = 20
)

// visit is an examination of a patient.
type visit struct {
	*Patient
	queues   []wire.Queue
	drainers wire.Drainers
	asked    reading // the clock of the store
	err      error   // why the fields above could not be read
	toAsynq  int     // number of queues with an asynq target

	check string
	found []Finding
	more  int // findings beyond maxFindings; negative while there is room
}

// checks are all checks in order. A check without findings does not apply to the patient.
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

// Checks returns the names of all checks, in order.
func Checks() (names []string) {
	for _, c := range checks {
		names = append(names, c.name)
	}
	return names
}

// Examine makes all checks and returns their findings.
func Examine(ctx context.Context, p *Patient) []Finding {
	v := &visit{Patient: p}
	v.read(ctx)
	for _, c := range checks {
		looking, cancel := context.WithTimeout(ctx, checkPatience)
		v.check, v.more = c.name, -maxFindings
		c.look(v, looking)
		cancel()
		if v.more > 0 {
			v.found = append(v.found, Finding{c.name, Warning, fmt.Sprintf("and %d more", v.more), "penstock queue ls"})
		}
	}
	return v.found
}

// Worst returns the worst verdict.
func Worst(found []Finding) Verdict {
	worst := OK
	for _, f := range found {
		if f.Verdict == Wrong || worst == OK {
			worst = f.Verdict
		}
	}
	return worst
}

// read reads what several checks need.
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

func (v *visit) ok(format string, args ...any) { v.add(OK, "", format, args...) }

func (v *visit) warn(do, format string, args ...any) { v.add(Warning, do, format, args...) }

func (v *visit) wrong(do, format string, args ...any) { v.add(Wrong, do, format, args...) }

func (v *visit) add(verdict Verdict, do, format string, args ...any) {
	if v.more++; v.more <= 0 {
		v.found = append(v.found, Finding{v.check, verdict, fmt.Sprintf(format, args...), do})
	}
}

// silent reports whether the present check has no findings yet, so that it may report success.
func (v *visit) silent() bool { return v.more == -maxFindings }
