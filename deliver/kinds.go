package deliver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/natstarget"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/deliver/smstarget"
	"github.com/penstock/penstock/deliver/smtptarget"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// Kind is a kind of target of a program's own; docs/targets/custom.md tells how to make one.
type Kind struct {
	// Name is its name in a deliver setting: small letters, digits, _ and -, beginning with a letter.
	Name string
	// Setting returns a pointer to what a document of this kind is read into, with its defaults. It is read strictly,
	// and then checked by its Check.
	Setting func() setting.Setting
	// Deliver makes one attempt; see Sender.
	Deliver func(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error
	// Close is called when the Router is closed, if a job was ever delivered. Nil does nothing.
	Close func() error
}

// Kinds are all kinds of targets that a program knows. A nil Kinds has those that are built in.
type Kinds struct{ own map[string]kind }

// kind is a way to deliver.
type kind struct {
	setting func() setting.Setting // with its defaults
	sender  func(Options) Sender
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// NewKinds returns Kinds that have a program's own beside those that are built in.
func NewKinds(own ...Kind) (*Kinds, error) {
	k := &Kinds{own: make(map[string]kind, len(own))}
	for _, o := range own {
		_, twice := k.of(o.Name)
		switch {
		case !kindName.MatchString(o.Name):
			return nil, fmt.Errorf(
				"the kind of target %q: its name must be small letters, digits, _ and -, beginning with a letter, at most 32",
				o.Name,
			)
		case twice:
			return nil, fmt.Errorf("the kind of target %q is there already; there are %s", o.Name, strings.Join(k.names(), ", "))
		case o.Setting == nil || o.Deliver == nil:
			return nil, fmt.Errorf("the kind of target %q needs both Setting and Deliver", o.Name)
		}
		k.own[o.Name] = kind{o.Setting, func(Options) Sender { return ownSender{o} }}
	}
	return k, nil
}

// ownSender is that of a program's own kind.
type ownSender struct{ kind Kind }

func (s ownSender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, with setting.Setting) error {
	return s.kind.Deliver(ctx, job, gate, with)
}

func (s ownSender) Close() error {
	if s.kind.Close == nil {
		return nil
	}
	return s.kind.Close()
}

// NewIntake is the func NewIntake for these kinds.
func (k *Kinds) NewIntake(next queue.Appender, specs queue.SpecReader) *Intake {
	return &Intake{next: next, targets: newTargets(specs, k.Parse)}
}

func (k *Kinds) of(name string) (kind, bool) {
	if k != nil {
		if found, ok := k.own[name]; ok {
			return found, true
		}
	}
	found, ok := builtIn[name]
	return found, ok
}

// names are those of all, sorted.
func (k *Kinds) names() []string {
	all := slices.Collect(maps.Keys(builtIn))
	if k != nil {
		all = slices.AppendSeq(all, maps.Keys(k.own))
	}
	slices.Sort(all)
	return all
}

// noAsynq is the asynq target of a program that was not told where asynq is.
func noAsynq(context.Context, *drain.Job, drain.Gate, setting.Setting) error {
	return drain.Down(errors.New("these drainers have no asynq to release tasks into: start them with --asynq-redis"))
}

// builtIn are by their names in a deliver setting.
var builtIn = map[string]kind{
	"http": {
		func() setting.Setting { return httptarget.Default() },
		func(o Options) Sender {
			return httptarget.New(httptarget.Options{
				Concurrency: o.Concurrency, Secrets: o.Secrets, Egress: o.Egress, TLS: o.TLS,
			})
		},
	},
	"asynq": {
		func() setting.Setting { return asynqtask.Default() },
		func(o Options) Sender {
			if o.Asynq == nil {
				return ownSender{Kind{Deliver: noAsynq}}
			}
			return o.Asynq(o.Concurrency)
		},
	},
	"nats": {
		func() setting.Setting { return natstarget.Default() },
		func(o Options) Sender { return natstarget.New(o.NATS) },
	},
	"smtp": {
		func() setting.Setting { return smtptarget.Default() },
		func(o Options) Sender {
			return smtptarget.New(smtptarget.Options{Secrets: o.Secrets, Egress: o.Egress, TLS: o.TLS})
		},
	},
	"sms": {
		func() setting.Setting { return smstarget.Default() },
		func(o Options) Sender {
			client := httptarget.NewClient(httptarget.Options{Concurrency: o.Concurrency, Egress: o.Egress, TLS: o.TLS})
			return smstarget.New(smstarget.Options{Client: client, Secrets: o.Secrets, Logger: o.Logger})
		},
	},
}
