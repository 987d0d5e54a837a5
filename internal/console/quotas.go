package console

import (
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// quotaCard is the usage of a quota in the present window.
type quotaCard struct {
	wire.Quota
	Title string // "50,000 a day"
	Of    string // the parent, if it is the parent's quota
	Bar   gauge
	// Empty is when the quota will be used up, if it is before it renews. Lasts reports that it will not be.
	Empty *time.Time
	Lasts bool
	// Rate is the present rate behind Empty and Lasts; 0 if they follow from the forecast of the jobs in the queue.
	Rate float64
}

// periods are the windows of quotas in words.
var periods = map[string]string{"m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}

// quotaCards returns the quotas that the jobs of a queue use: its own and its parent's.
func quotaCards(r *request, q *wire.Queue) ([]quotaCard, error) {
	var cards []quotaCard
	add := func(of string, quotas []wire.Quota) {
		for _, u := range quotas {
			c := quotaCard{Quota: u, Of: of, Bar: gaugeOf(u.Used, u.Quota.Max, num)}
			c.Title = num(u.Quota.Max) + " per " + periods[u.Quota.Per]
			cards = append(cards, c)
		}
	}
	add("", q.Stats.Quotas)
	if q.Parent != nil {
		add(q.Parent.Name, q.Parent.Quotas)
	}
	if len(cards) == 0 {
		return nil, nil
	}
	f, err := r.api.Forecast(r.Context(), q.Name)
	if err != nil {
		return nil, err
	}
	for i := range cards {
		cards[i].foresee(&f, q.Stats.Outflow)
	}
	return cards, nil
}

// foresee fills in when the quota will be used up: by the forecast, or else at the present rate of the queue.
func (c *quotaCard) foresee(f *wire.QueueForecast, outflow float64) {
	if c.Left == 0 {
		return
	}
	name := strings.TrimSpace(c.Quota.Quota.String() + " " + c.Timezone)
	for i := range f.Bends {
		b := &f.Bends[i]
		// Behind its name, the reason has the step of a ramp.
		reason, _, _ := strings.Cut(b.Reason, " (")
		if b.Why == "quota" && reason == name && b.Queue == c.Of && b.At.Before(c.Ends) {
			c.Empty = &b.At
			return
		}
	}
	if c.Of != "" || outflow <= 0 { // the rate of the whole group is not known here
		return
	}
	c.Rate = outflow
	seconds := float64(c.Left) / outflow
	if c.Lasts = seconds >= c.Ends.Sub(f.Now).Seconds(); !c.Lasts {
		at := f.Now.Add(time.Duration(seconds * float64(time.Second)))
		c.Empty = &at
	}
}
