package console

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// pictureCard is the part of a page with the picture, drawn by {{template "picture" .}}.
type pictureCard struct {
	picture
	Spans []pictureSpan
	Past  string // the span in words
	// Queue is set if the user can try another rate. Own is the queue's rate, Wrong says what is wrong with the rate to
	// try, and Clear is the link without it.
	Queue, Window, Own, Clear string
	Wrong                     *fault
	Note                      string // which queues it is about; may be empty
}

// pictureSpan is a link to a picture of another span.
type pictureSpan struct {
	Name, Text, URL string
	Current         bool
	past            time.Duration
}

// pictureSpans are the spans of the past that the user can choose; the first is the default.
var pictureSpans = []pictureSpan{
	{Name: "15m", Text: "15 minutes", past: 15 * time.Minute},
	{Name: "24h", Text: "24 hours", past: 24 * time.Hour},
}

// spanned returns the card of the span that the user asks for. link returns a link with a parameter set; "" leaves the
// parameter out.
func (r *request) spanned(link func(name, value string) string) (card pictureCard, past time.Duration) {
	asked := r.URL.Query().Get("window")
	card.Window, card.Past, past = pictureSpans[0].Name, pictureSpans[0].Text, pictureSpans[0].past
	for _, s := range pictureSpans {
		if s.Name == asked {
			card.Window, card.Past, past = s.Name, s.Text, s.past
		}
	}
	for _, s := range pictureSpans {
		s.Current = s.Name == card.Window
		s.URL = link("window", s.Name)
		card.Spans = append(card.Spans, s)
	}
	return card, past
}

// queuePicture returns the picture of a queue.
func (r *request) queuePicture(q *wire.Queue) (card pictureCard, err error) {
	asked := r.URL.Query()
	link := func(name, value string) string {
		n := url.Values{"window": {asked.Get("window")}, "rate": {asked.Get("rate")}}
		n.Set(name, value)
		maps.DeleteFunc(n, func(name string, _ []string) bool { return n.Get(name) == "" })
		if len(n) == 0 {
			return r.console.path("queues", q.Name)
		}
		return r.console.path("queues", q.Name) + "?" + n.Encode()
	}
	in := pictureInput{capacity: q.Capacity, now: time.Now()}
	card, in.past = r.spanned(link)
	card.Queue, card.Own, card.Clear = q.Name, q.Rate.String(), link("rate", "")
	if in.curves, err = r.api.Curves(r.Context(), []string{q.Name}, card.Window); err != nil {
		return card, err
	}
	if in.forecast, err = r.api.Forecast(r.Context(), q.Name); err != nil {
		return card, err
	}
	in.rate = asked.Get("rate")
	if in.rate != "" {
		in.tried, err = r.api.Forecast(r.Context(), q.Name, "rate="+in.rate)
		if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status < http.StatusInternalServerError {
			card.Wrong, err = faultOf(err), nil
		}
	}
	card.picture = in.draw()
	return card, err
}

// maxPictured is the number of queues that the API sums up if they are named, as those in one state are.
const maxPictured = 200

// overviewPicture returns the picture of the queues that the overview selects, on all of its pages. asked are the
// parameters of the overview's API call.
func (r *request) overviewPicture(v *overview, asked url.Values) (card pictureCard, err error) {
	in := pictureInput{now: time.Now(), many: true}
	card, in.past = r.spanned(func(name, value string) string {
		return r.console.root + "/" + changed(r.URL.Query(), name, value)
	})
	if v.Total == 0 {
		return card, nil
	}
	of := client.Selection{Text: v.Name}
	in.capacity = v.Sums.Capacity
	if v.State != "" {
		some, err := r.selected(v, asked)
		if err != nil {
			return card, err
		}
		in.capacity = 0
		for i := range some {
			of.Queues = append(of.Queues, some[i].Name)
			in.capacity += some[i].Capacity
		}
		if of.Text = ""; len(some) < v.Total {
			card.Note = "The picture shows the first " + count(int64(len(some)), "queue") + " of this list."
		}
	}
	if in.curves, err = r.api.SumCurves(r.Context(), of, card.Window); err != nil {
		return card, err
	}
	in.forecast, err = r.api.SumForecasts(r.Context(), of)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status == http.StatusNotFound {
		err = nil // an older server
	}
	if n := in.forecast.Missing; n > 0 {
		card.Note += " " + count(int64(n), "queue") + " will have a forecast in a moment."
	}
	if v.State == "" {
		in.sums = &v.Sums
	}
	card.picture = in.draw()
	return card, err
}

// selected returns the queues of all pages of the overview, up to maxPictured.
func (r *request) selected(v *overview, asked url.Values) ([]wire.QueueRow, error) {
	if len(v.Queues) == v.Total {
		return v.Queues, nil
	}
	asked = maps.Clone(asked)
	asked.Set("offset", "0")
	asked.Set("limit", strconv.Itoa(maxPictured))
	all, err := r.api.Overview(r.Context(), asked)
	return all.Queues, err
}
