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

// Kind is a program's own kind of target; see docs/targets/custom.md.
type Kind struct {
	// Name is the kind's name in a deliver setting: lower-case letters, digits, _ and -, beginning with a letter.
	Name string
	// Setting returns a pointer to a setting with its defaults. JSON is decoded into it strictly, and then its Check is
	// called.
	Setting func() setting.Setting
	// Deliver makes one attempt; see Sender.
	Deliver func(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error
	// Close is called when the Router is closed, if it has delivered jobs of this kind. Nil does nothing.
	Close func() error
}

// Kinds are all kinds of targets that a program knows. A nil Kinds has the built-in kinds.
type Kinds struct{ own map[string]kind }

type kind struct {
	setting func() setting.Setting // with its defaults
	sender  func(Options) Sender
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)

// NewKinds returns the built-in kinds and a program's own.
func NewKinds(own ...Kind) (*Kinds, error) {
	k := &Kinds{own: make(map[string]kind, len(own))}
	for _, o := range own {
		_, twice := k.of(o.Name)
		switch {
		case !kindName.MatchString(o.Name):
			return nil, fmt.Errorf(
				"kind of target %q: the name must have 1 to 32 lower-case letters, digits, _ and -, and begin with a letter",
				o.Name,
			)
		case twice:
			return nil, fmt.Errorf("kind of target %q: the name is taken by one of %s", o.Name, strings.Join(k.names(), ", "))
		case o.Setting == nil || o.Deliver == nil:
			return nil, fmt.Errorf("kind of target %q: both Setting and Deliver are required", o.Name)
		}
		k.own[o.Name] = kind{o.Setting, func(Options) Sender { return ownSender{o} }}
	}
	return k, nil
}

// ownSender is the Sender of a program's own kind.
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

// NewIntake is like the function NewIntake, for these kinds.
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

// names returns the names of all kinds, sorted.
func (k *Kinds) names() []string {
	all := slices.Collect(maps.Keys(builtIn))
	if k != nil {
		all = slices.AppendSeq(all, maps.Keys(k.own))
	}
	slices.Sort(all)
	return all
}

// noAsynq is the Deliver of asynq targets in a program without asynq.
func noAsynq(context.Context, *drain.Job, drain.Gate, setting.Setting) error {
	return drain.Down(errors.New("the drainers have no asynq to release tasks to: start them with --asynq-redis"))
}

// builtIn has the built-in kinds by name.
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
