package api

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// topWindow is the length of a counting window. Until topSettled after its beginning, the previous window is shown
	// instead.
	topWindow, topSettled = time.Hour, 5 * time.Minute
	// maxTopRules is how many rules are counted: the first ones used, each until it is unused for an hour.
	maxTopRules = 100
	// maxTop is how many keys are shown.
	maxTop = 20
)

// counting is an engine that counts the answers of rules by key: for takes, and for jobs that are appended.
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

// tops are the most frequent keys of rules, as counted by this process since it began.
type tops struct {
	// rule returns a rule as the engine applies it, and its revision.
	rule func(ctx context.Context, name string) (rules.Rule, int64, error)
	now  func() time.Time

	mu sync.Mutex
	of map[string]*ruleTop
	// lookedAt is when unused rules were last dropped.
	lookedAt time.Time
}

// ruleTop are the counts of one rule.
type ruleTop struct {
	mu          sync.Mutex
	now, before topCount
	asked       time.Time // last

	// revision is the rule's revision. Another revision may have other keys, or be another owner's rule of the same name.
	revision int64
	// text is the template of the keys of jobs; template is its parsed form.
	text     string
	template rules.Template
}

// topCount are the counts since an instant.
type topCount struct {
	since          time.Time
	asked, refused sketch
}

// find returns the counts of a rule, nil if there are too many rules.
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

// hasRoom reports whether another rule can be counted. Once a minute it drops unused rules.
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

// forget drops the counts of a deleted rule: its name may get another owner.
func (t *tops) forget(rule string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, rule)
}

// taken counts the answers to takes.
func (t *tops) taken(ctx context.Context, name string, takes []rules.Take, answers []rules.Taken) {
	var r *ruleTop
	for i := range answers {
		if takes[i].Op != rules.TakeNow || answers[i].Err != nil {
			continue
		}
		if r == nil {
			_, revision, err := t.rule(ctx, name)
			if err != nil {
				return // counted next time
			}
			if r = t.find(name); r == nil {
				return
			}
			r.at(revision)
		}
		r.count(t.now(), takes[i].Key, answers[i].Allowed)
	}
}

// appended counts the rulings about a job.
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

// at sets the revision, and drops the counts if they are of another revision.
func (r *ruleTop) at(revision int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.revision != revision {
		r.revision, r.now, r.before = revision, topCount{}, topCount{}
	}
}

// keyOf returns a job's key by a template.
func (r *ruleTop) keyOf(text string, job *queue.Job) (key string, known bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text != text {
		template, err := rules.ParseTemplate(text)
		if err != nil {
			return "", false // from a newer version
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

// turn begins a new window when the hour is over, and drops windows before the previous one.
func (r *ruleTop) turn(now time.Time) {
	if since := r.now.since; !since.IsZero() && now.Sub(since) >= topWindow {
		r.now, r.before = topCount{}, r.now
	}
	if now.Sub(r.before.since) >= 2*topWindow {
		r.before = topCount{}
	}
}

// getTop answers with a rule's most frequent keys.
func (h *handler) getTop(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("rule")
	rule, revision, err := h.o.Rule(r.Context(), name)
	if err != nil {
		h.failRule(w, err, name)
		return
	}
	h.writeJSON(w, r, http.StatusOK, h.tops.shown(name, rule.Key, revision))
}

// shown returns the keys of a rule in the present window, or in the previous window if the present one has only begun.
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

// sketchKeys is how many keys a sketch holds. It contains every key that occurs in more than 1/sketchKeys of n counts.
const sketchKeys = 32

// sketch finds the most frequent keys in bounded memory (space-saving). A new key replaces the least frequent one and
// inherits its count, which may then be too high by that much, but never too low.
type sketch struct {
	n    int64 // total count
	keys []keyCount
	at   map[string]int // index in keys
}

// keyCount is an upper bound of how often a key occurred, and its error.
type keyCount struct {
	key          string
	count, error int64
}

func (s *sketch) add(key string) {
	s.n++
	if i, known := s.at[key]; known {
		s.keys[i].count++
		return
	}
	if len(s.keys) < sketchKeys {
		if s.at == nil {
			s.at = make(map[string]int, sketchKeys)
		}
		s.at[key] = len(s.keys)
		s.keys = append(s.keys, keyCount{key: key, count: 1})
		return
	}
	least := 0
	for i := range s.keys {
		if s.keys[i].count < s.keys[least].count {
			least = i
		}
	}
	k := &s.keys[least]
	delete(s.at, k.key)
	s.at[key] = least
	*k = keyCount{key: key, count: k.count + 1, error: k.count}
}

// top returns the most frequent keys, in descending order. Keys that may not have occurred at all are left out.
func (s *sketch) top(most int) []keyCount {
	all := slices.DeleteFunc(slices.Clone(s.keys), func(k keyCount) bool { return k.count == k.error })
	slices.SortFunc(all, func(a, b keyCount) int {
		return cmp.Or(cmp.Compare(b.count, a.count), cmp.Compare(a.error, b.error), cmp.Compare(a.key, b.key))
	})
	return all[:min(len(all), most)]
}
