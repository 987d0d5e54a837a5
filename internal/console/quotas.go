package console

import (
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// quotaCard is the usage of a quota in the present window.
type quotaCard struct {
	wire.Quota
	Title string // "50,000 per day", "5,000,000 tokens per day"
	Of    string // the parent, if it is the parent's quota
	Bar   gauge
	// Empty is when the quota will be used up, if it is before it renews. Lasts reports that it will not be.
	Empty *time.Time
	Lasts bool
	// Rate is the present rate behind Empty and Lasts; 0 if they follow from the forecast of the jobs in the queue.
	Rate float64
}

// budgetCard is the usage of a rate that counts another unit than jobs.
type budgetCard struct {
	wire.Budget
	Of   string // the parent, if it is the parent's
	Bar  gauge
	Debt int64 // how much more than the burst is in use
}

// budgetCards returns the budgets that the jobs of a queue use: its own and its parent's.
func budgetCards(q *wire.Queue) (cards []budgetCard) {
	add := func(of string, budgets []wire.Budget) {
		for _, b := range budgets {
			cards = append(cards, budgetCard{b, of, gaugeOf(b.Used, b.Burst, num), max(0, b.Used-b.Burst)})
		}
	}
	add("", q.Stats.Budgets)
	if q.Parent != nil {
		add(q.Parent.Name, q.Parent.Budgets)
	}
	return cards
}

// periods are the windows of quotas in words.
var periods = map[string]string{"m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month"}

// quotaCards returns the quotas that the jobs of a queue use: its own and its parent's.
func quotaCards(r *request, q *wire.Queue) ([]quotaCard, error) {
	var cards []quotaCard
	add := func(of string, quotas []wire.Quota) {
		for _, u := range quotas {
			c := quotaCard{Quota: u, Of: of, Bar: gaugeOf(u.Used, u.Quota.Max, num)}
			c.Title = strings.TrimSpace(num(u.Quota.Max)+" "+u.Unit) + " per " + periods[u.Quota.Per]
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
	limit := queue.Limit{Unit: c.Unit, Quota: c.Quota.Quota, Timezone: c.Timezone}
	name := limit.String()
	for i := range f.Bends {
		b := &f.Bends[i]
		// Behind its name, the reason has the step of a ramp.
		reason, _, _ := strings.Cut(b.Reason, " (")
		if b.Why == "quota" && reason == name && b.Queue == c.Of && b.At.Before(c.Ends) {
			c.Empty = &b.At
			return
		}
	}
	if c.Of != "" || c.Unit != "" || outflow <= 0 { // the rate of the group, and of other units, is not known here
		return
	}
	c.Rate = outflow
	seconds := float64(c.Left) / outflow
	if c.Lasts = seconds >= c.Ends.Sub(f.Now).Seconds(); !c.Lasts {
		at := f.Now.Add(time.Duration(seconds * float64(time.Second)))
		c.Empty = &at
	}
}
