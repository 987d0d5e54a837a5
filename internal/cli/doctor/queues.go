package doctor

import (
	"context"

	"github.com/penstock/penstock/internal/attention"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/status"
)

// drained checks that drainers run, and that all have the same version.
func (v *visit) drained(context.Context) {
	if v.err != nil {
		return
	}
	f := attention.Fleet{
		Drainers: &v.drainers, Peer: "the ingress", Version: v.drainers.Version, Start: v.Start, Needed: len(v.queues) == 0,
	}
	if v.Direct {
		f.Peer, f.Version = "this penstock", v.Version
	}
	for n := range v.queues {
		q := &v.queues[n]
		f.Needed = f.Needed || !q.Pull
		if q.Status.Code == status.NoDrainer {
			f.Undrained = append(f.Undrained, q.Name)
		}
	}
	for _, t := range attention.Drainers(&f) {
		v.trouble(&t)
	}
	if v.silent() {
		v.ok("%s with version %s", show.Count(int64(len(v.drainers.Drainers)), "drainer"), f.Version)
	}
}

// trouble reports a problem.
func (v *visit) trouble(t *wire.Trouble) {
	v.add(t.Verdict, t.Fix.Command, "%s", command.TroubleText(t, v.drainers.Now))
}

// standing checks the queues.
func (v *visit) standing(ctx context.Context) {
	if v.err != nil {
		return
	}
	released, refused := v.API.Releases(ctx, v.queues), v.refused(ctx)
	var found []attention.Finding
	for n := range v.queues {
		q := attention.OfWire(&v.queues[n])
		q.Refused = refused[q.Name]
		if r := released[q.Name]; r.Many() {
			q.Released = attention.ReleasedOf(r.Text(), v.queues[n].EffectiveSlack(), v.queues[n].Lease.D())
		}
		found = append(found, attention.Find(&q)...)
	}
	attention.Sort(found)
	for _, f := range found {
		t := f.Trouble()
		v.trouble(&t)
	}
	if v.silent() {
		v.ok("%s, none stopped, full or waiting for a person, and no dead jobs", show.Count(int64(len(v.queues)), "queue"))
	}
}

// refused returns the present refusals per second of full queues, as far as the server knows them.
func (v *visit) refused(ctx context.Context) map[string]float64 {
	var full []string
	for n := range v.queues {
		if v.queues[n].Status.Full && len(full) < maxFindings {
			full = append(full, v.queues[n].Name)
		}
	}
	if len(full) == 0 {
		return nil
	}
	past, err := v.API.Histories(ctx, full, "15m", "refused")
	if err != nil {
		return nil // an older server, or no answer
	}
	now := map[string]float64{}
	for name, of := range past.Queues {
		for _, per := range of.Values["refused"] {
			if per == per { // known
				now[name] = float64(per)
			}
		}
	}
	return now
}
