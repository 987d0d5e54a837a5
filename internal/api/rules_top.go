package api

import (
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// topWindow is for how long keys are counted before it begins anew, and topSettled how old a count is before it
	// takes the place of the one before it.
	topWindow, topSettled = time.Hour, 5 * time.Minute
	// maxTopRules is of how many rules keys are counted: those that were asked first, until nobody asks one for an hour.
	maxTopRules = 100
	// maxTop is how many keys are told.
	maxTop = 20
)

// counting is an engine whose rules' answers are counted by key: what is taken, and what is asked for jobs that are
// appended.
type counting struct {
	queue.Engine
	tops *tops
}

func (e *counting) Append(ctx context.Context, jobs []queue.Job) ([]queue.Appended, error) {
	answers, err := e.Engine.Append(ctx, jobs)
	for i := range answers {
		if len(answers[i].Rules) > 0 {
			e.tops.appended(ctx, &jobs[i], answers[i].Rules)
		}
	}
	return answers, err
}

func (e *counting) Take(ctx context.Context, rule string, takes []rules.Take) ([]rules.Taken, error) {
	answers, err := e.Engine.Take(ctx, rule, takes)
	if err == nil {
		e.tops.taken(ctx, rule, takes, answers)
	}
	return answers, err
}

// tops are the keys by which rules are asked most, since this process began, as far as this process asked.
type tops struct {
	// rule tells a rule as the engine goes by it, and its revision.
	rule func(ctx context.Context, name string) (rules.Rule, int64, error)
	now  func() time.Time

	mu sync.Mutex
	of map[string]*ruleTop
	// lookedAt is when a place was last sought that is free again.
	lookedAt time.Time
}

// ruleTop are those of a rule.
type ruleTop struct {
	mu          sync.Mutex
	now, before topCount
	asked       time.Time // last

	// revision is that of the rule which this was counted of. Another one, by whichever process, may have other keys, or
	// be another's rule of the same name.
	revision int64
	// text is the template of the keys of jobs, and template what it says.
	text     string
	template rules.Template
}

// topCount is what was counted from an instant on.
type topCount struct {
	since          time.Time
	asked, refused sketch
}

// find is a rule's, nil if there are too many.
func (t *tops) find(rule string) *ruleTop {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.of[rule]
	if r == nil && t.hasRoom() {
		if t.of == nil {
			t.of = map[string]*ruleTop{}
		}
		r = &ruleTop{}
		t.of[rule] = r
	}
	return r
}

// hasRoom reports whether there is a place for one more rule, and looks once a minute for one that nobody asks.
func (t *tops) hasRoom() bool {
	if now := t.now(); len(t.of) >= maxTopRules && now.Sub(t.lookedAt) >= time.Minute {
		t.lookedAt = now
		maps.DeleteFunc(t.of, func(_ string, r *ruleTop) bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return now.Sub(r.asked) >= topWindow
		})
	}
	return len(t.of) < maxTopRules
}

// forget drops what was counted of a rule that is gone: another of that name may be another's.
func (t *tops) forget(rule string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, rule)
}

// taken counts what a rule said to who asked it by name.
func (t *tops) taken(ctx context.Context, name string, takes []rules.Take, answers []rules.Taken) {
	var r *ruleTop
	for i := range answers {
		if takes[i].Op != rules.TakeNow || answers[i].Err != nil {
			continue
		}
		if r == nil {
			_, revision, err := t.rule(ctx, name)
			if err != nil {
				return // it is counted next time
			}
			if r = t.find(name); r == nil {
				return
			}
			r.at(revision)
		}
		r.count(t.now(), takes[i].Key, answers[i].Allowed)
	}
}

// appended counts what rules said about a job.
func (t *tops) appended(ctx context.Context, job *queue.Job, rulings []rules.Ruling) {
	for i := range rulings {
		r := t.find(rulings[i].Rule)
		if r == nil {
			continue
		}
		rule, revision, err := t.rule(ctx, rulings[i].Rule)
		if err != nil {
			continue // it is counted next time
		}
		r.at(revision)
		if key, known := r.keyOf(rule.Key, job); known {
			r.count(t.now(), key, rulings[i].Allowed)
		}
	}
}

// at drops what was counted of the rule at another revision.
func (r *ruleTop) at(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revision != revision {
		r.revision, r.now, r.before = revision, topCount{}, topCount{}
	}
}

// keyOf is what a template says of a job.
func (r *ruleTop) keyOf(text string, job *queue.Job) (key string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != text {
		template, err := rules.ParseTemplate(text)
		if err != nil {
			return "", false // a newer version's
		}
		r.text, r.template = text, template
	}
	key, err := r.template.Expand(job.Fields())
	return key, err == nil
}

func (r *ruleTop) count(now time.Time, key string, allowed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = now
	r.turn(now)
	if r.now.since.IsZero() {
		r.now.since = now
	}
	r.now.asked.add(key)
	if !allowed {
		r.now.refused.add(key)
	}
}

// turn leaves what was counted behind when its hour is over, and forgets what ended longer ago than that.
func (r *ruleTop) turn(now time.Time) {
	if since := r.now.since; !since.IsZero() && now.Sub(since) >= topWindow {
		r.now, r.before = topCount{}, r.now
	}
	if now.Sub(r.before.since) >= 2*topWindow {
		r.before = topCount{}
	}
}

// getTop tells by which keys a rule is asked most.
func (h *handler) getTop(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	rule, revision, err := h.o.Rule(r.Context(), name)
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, h.tops.shown(name, rule.Key, revision))
}

// shown are the keys of a rule in the hour under way, or in the one before if that has only begun.
func (t *tops) shown(name, key string, revision int64) wire.Top {
	none := wire.KeyCounts{Keys: []wire.KeyCount{}}
	v := wire.Top{By: key, Asked: none, Refused: none}
	t.mu.Lock()
	r := t.of[name]
	v.Uncounted = r == nil && len(t.of) >= maxTopRules
	t.mu.Unlock()
	if r == nil {
		return v
	}
	r.at(revision)
	r.mu.Lock()
	defer r.mu.Unlock()
	now := t.now()
	r.turn(now)
	c := &r.now
	if (c.since.IsZero() || now.Sub(c.since) < topSettled) && !r.before.since.IsZero() {
		until := r.before.since.Add(topWindow)
		if !c.since.IsZero() {
			until = c.since
		}
		until = until.UTC()
		v.Until, c = &until, &r.before
	}
	if c.since.IsZero() {
		return v
	}
	v.Since = instant(c.since)
	v.Asked, v.Refused = shownCounts(&c.asked), shownCounts(&c.refused)
	return v
}

func shownCounts(s *sketch) wire.KeyCounts {
	v := wire.KeyCounts{Count: s.n, Keys: []wire.KeyCount{}}
	for _, k := range s.top(maxTop) {
		v.Keys = append(v.Keys, wire.KeyCount{Key: k.key, Count: k.count, Error: k.error})
	}
	return v
}
