package cli

import (
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

type jobGetCmd struct {
	Queue string `arg:"" help:"Name of the queue."`
	ID    string `arg:"" help:"Id of the job."`
	output
}

func (c *jobGetCmd) Run(r *run) error {
	api, err := r.client()
	if err != nil {
		return err
	}
	j, err := api.Job(r.ctx, c.Queue, c.ID)
	if err != nil {
		return err
	}
	if c.json() {
		return printJSON(r.Out, j)
	}
	pairs := []string{"queue", j.Queue, "id", j.ID, "state", j.State.String(), "lane", plain(j.Lane)}
	came, about := "appended", ""
	if j.State == queue.Deferred {
		came, about = "deferred", "about "
	}
	if j.Position > 0 {
		pairs = append(pairs, "position", about+num(j.Position))
	}
	if j.ETA != nil {
		about := "about "
		if j.ETA.Exact {
			about = ""
		}
		pairs = append(pairs, "departs", fmt.Sprintf(
			"%s (%sin %s)", j.ETA.At.Local().Format(time.RFC3339Nano), about, short(time.Until(j.ETA.At)),
		))
	}
	pairs = append(pairs, "why", whyOf(j.Why))
	if j.Priority > 0 {
		pairs = append(pairs, "priority", num(int64(j.Priority)))
	}
	pairs = append(pairs, "cost", num(j.Cost), "attempts", num(int64(j.Attempts)),
		came, instant(j.AppendedAt), "expires", instant(j.ExpiresAt), "due", instant(j.DueAt), "ended", instant(j.EndedAt),
		"reason", plain(j.Reason))
	for _, b := range j.Bounces {
		pairs = append(pairs, "refused", plain(strings.TrimRight(
			fmt.Sprintf("%s: %d %s %s", b.Address, b.Code, b.Status, b.Text), " ",
		)))
	}
	pairs = append(pairs, content(&j)...)
	if err := facts(r.Out, pairs...); err != nil || len(j.Timeline) == 0 {
		return err
	}
	return timeline(r.Out, j.Timeline)
}

// maxShownPayload is how much of a payload stands in a table.
const maxShownPayload = 2000

// content is what a job carries, for people.
func content(j *wire.Job) []string {
	if j.ContentType == "" {
		return nil
	}
	pairs := []string{"type", plain(j.ContentType)}
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		pairs = append(pairs, "header", plain(name+": "+j.Headers[name]))
	}
	text := string(j.Payload)
	if j.PayloadBase64 != nil {
		text = *j.PayloadBase64
		if b, err := base64.StdEncoding.DecodeString(text); err == nil && utf8.Valid(b) &&
			strings.HasPrefix(j.ContentType, "text/") {
			text = string(b)
		}
	}
	if short := clip.Text(text, maxShownPayload); len(short) < len(text) {
		text = fmt.Sprintf("%s... (%d bytes; -o json has all of it)", short, len(text))
	}
	return append(pairs, "payload", plain(text))
}

// timeline prints the attempts of a job as a table.
func timeline(w io.Writer, list []wire.Attempt) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprint(tw, "\nDEPARTED\tTOOK\tOUTCOME\tDRAINER\tANSWER\n")
	for _, a := range list {
		took := ""
		if a.At != nil && a.EndedAt != nil {
			took = short(a.EndedAt.Sub(*a.At))
		}
		_, _ = fmt.Fprintf(tw, "%s\t%s\t%v\t%s\t%s\n", instant(a.At), took, a.Outcome, plain(a.Drainer), plain(a.Answer))
	}
	return tw.Flush()
}

// whyOf says what a job waits for; nothing of one that does not.
func whyOf(y *wire.Why) string {
	if y == nil {
		return ""
	}
	text := plain(string(y.By))
	if y.Queue != "" {
		text += " (" + plain(y.Queue) + ")"
	}
	if y.Until != nil {
		text += " until " + instant(y.Until)
	}
	text += byWhom(y.Who, y.ClaimedBy)
	if y.Reason != "" {
		text += ": " + plain(y.Reason)
	}
	return text
}

// instant is t on the local clock; empty if there is none.
func instant(t *time.Time) string {
	if t == nil || t.IsZero() {
		return ""
	}
	return t.Local().Format("2006-01-02T15:04:05.000Z07:00")
}
