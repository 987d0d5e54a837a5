package smstarget

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

var errTwin = errors.New("it has one, which may belong to another job whose answer has not come yet")

// firstAsk is how long after a lost answer the provider is asked first. The pause doubles each time.
const firstAsk = 500 * time.Millisecond

// Options are the settings of a Sender.
type Options struct {
	// Client makes the requests. Closing the Sender closes it.
	Client  *httptarget.Client
	Secrets secrets.Source
	Logger  *slog.Logger // discards
}

// Sender delivers jobs as texts. It is safe for concurrent use.
type Sender struct {
	o    Options
	seen *seen
}

// New returns a Sender.
func New(o Options) *Sender {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Sender{o: o, seen: newSeen()}
}

// Deliver makes one attempt. Its error is as in drain.Handler. target is a *Setting.
func (s *Sender) Deliver(ctx context.Context, job *drain.Job, gate drain.Gate, target setting.Setting) error {
	set := target.(*Setting)
	m, err := set.Message(&job.Job)
	if err != nil {
		return drain.Permanent(err)
	}
	set, err = set.resolve(s.o.Secrets, job.Queue)
	if err != nil {
		return drain.Down(err)
	}
	provider, err := providers[set.Provider](set, s.o.Client)
	if err != nil {
		return drain.Down(err)
	}
	since := time.Now()
	s.seen.begin(m)
	id, err := provider.Send(ctx, gate, m)
	s.seen.end(m, id)
	if finder, ok := provider.(Finder); ok && drain.What(err).Verdict == queue.Hold {
		id, err = s.find(ctx, finder, set, m, since, err)
	}
	if err == nil {
		s.o.Logger.Debug("text sent", "queue", job.Queue, "id", job.ID, "text", id, "segments", m.Segments)
	}
	return err
}

// resolve returns the setting with its secrets in place. They are read each time.
func (s *Setting) resolve(source secrets.Source, queueName string) (*Setting, error) {
	r := *s
	values := map[string]*string{
		"account": &r.Account, "auth_token": &r.AuthToken, "api_key": &r.APIKey, "api_secret": &r.APISecret,
		"status_callback": &r.StatusCallback,
	}
	for _, use := range s.Uses() {
		value, used, err := source.Expand(queueName, use)
		if err != nil {
			return nil, fmt.Errorf("deliver.sms.%s: %w", use.Field, err)
		}
		*values[use.Field] = value
		r.hidden = append(r.hidden, used...)
	}
	return &r, nil
}

// Close implements deliver.Sender.
func (s *Sender) Close() error { return s.o.Client.Close() }

// find finds out whether a text was sent that got no answer; lost is the error. It may take a while until the provider
// lists a text. If it lists the text, it was sent. If it does not, it may still be processing the request; the setting
// decides what happens then.
func (s *Sender) find(
	ctx context.Context, f Finder, set *Setting, m Message, since time.Time, lost error,
) (string, error) {
	end := time.Now().Add(set.Grace.D())
	for wait := min(firstAsk, set.Grace.D()); ; wait *= 2 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return "", lost
		}
		twin := false
		id, listed, err := f.Find(ctx, m, since, func(id string) bool {
			taken, unsure := s.seen.take(m, id)
			twin = twin || unsure
			return taken
		})
		if twin && !listed {
			err = errTwin
		}
		left := time.Until(end)
		switch {
		case ctx.Err() != nil:
			return "", lost
		case listed:
			return id, nil
		case left > 0:
			wait = min(wait, left/2) // it is doubled, so that the last question comes at the end
		case err != nil:
			//nolint:errorlint // the marks of err concern the question, and not the text
			unsure := fmt.Errorf("%w; the provider did not answer whether it was sent: %v", lost, err)
			return "", drain.Trouble(drain.Unknown(unsure))
		case set.NotListed == NotListedRetry:
			//nolint:errorlint // the mark Unknown must go
			unlisted := fmt.Errorf("%s; %v later the provider did not list it, and it counts as not sent",
				lost, time.Since(since).Round(time.Second))
			return "", drain.Trouble(unlisted)
		default:
			return "", drain.Trouble(drain.Unknown(fmt.Errorf(
				"%w; %v later the provider did not list it", lost, time.Since(since).Round(time.Second),
			)))
		}
	}
}
