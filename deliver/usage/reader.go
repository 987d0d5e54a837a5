package usage

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/pointer"
	"github.com/penstock/penstock/queue"
)

// Fault is why the actual cost of a call in a unit is not charged.
type Fault string

// The faults.
const (
	Missing   Fault = "missing"   // the answer does not state it
	Invalid   Fault = "invalid"   // not a whole number from 0 to queue.MaxUnitCost
	Repeated  Fault = "repeated"  // a header, or a name of an object, appears more than once
	NotJSON   Fault = "not_json"  // the body is not JSON
	Encoded   Fault = "encoded"   // the body is compressed
	Cut       Fault = "cut"       // the body broke off, or is too long to be read to its end
	Uncounted Fault = "uncounted" // no limit counts the unit
)

// Faults are all faults.
var Faults = []Fault{Missing, Invalid, Repeated, NotJSON, Encoded, Cut, Uncounted}

// found is what an answer states about a unit.
type found struct {
	times int
	fault Fault // why it is not a cost, if it is not
	cost  int64
}

// Reader reads what a call has used from its answer. Write it the body, then call End.
type Reader struct {
	plan    *Plan
	results []found
	pending bool // the body matters
	encoded bool

	scanner *pointer.Scanner
	events  *events
}

// Read begins to read an answer by its headers. counted are the units that limits count for the call. The Reader is nil
// without a plan.
func (p *Plan) Read(h http.Header, counted map[string]int64) *Reader {
	if p == nil {
		return nil
	}
	r := &Reader{plan: p, results: make([]found, len(p.units))}
	for i := range p.units {
		u := &p.units[i]
		if _, counts := counted[u.name]; !counts {
			r.results[i] = found{times: 1, fault: Uncounted}
			continue
		}
		if u.header != "" {
			r.results[i] = inHeader(h[u.header])
			continue
		}
		r.pending = true
	}
	if !r.pending {
		return r
	}
	if coding := h.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		r.encoded = true
		return r
	}
	r.scanner = pointer.NewScanner(p.paths)
	if media, _, _ := strings.Cut(h.Get("Content-Type"), ";"); strings.EqualFold(
		strings.TrimSpace(media), "text/event-stream",
	) {
		r.events = &events{scanner: r.scanner, ended: r.event}
	}
	return r
}

// Pending reports whether the result depends on the body.
func (r *Reader) Pending() bool { return r != nil && r.pending }

// WantsMore reports whether the rest of the body can change the result.
func (r *Reader) WantsMore() bool { return r.Pending() && !r.encoded && !r.failed() }

// failed reports whether the body is not JSON, whatever comes.
func (r *Reader) failed() bool { return r.events == nil && r.scanner != nil && r.scanner.Failed() }

// Write implements io.Writer. It never fails.
func (r *Reader) Write(text []byte) (int, error) {
	switch {
	case r.events != nil:
		r.events.write(text)
	case r.scanner != nil:
		r.scanner.Write(text)
	}
	return len(text), nil
}

// event takes the numbers of an event. Later events replace them.
func (r *Reader) event() {
	if !r.scanner.Complete() {
		return
	}
	for i := range r.plan.units {
		if u := &r.plan.units[i]; u.inBody(r.results[i]) {
			if f := r.at(u); f.times > 0 {
				r.results[i] = f
			}
		}
	}
}

func (u *unit) inBody(f found) bool { return u.header == "" && f.fault != Uncounted }

// at returns what the first path of a unit that leads to a value has found.
func (r *Reader) at(u *unit) found {
	for i := u.first; i < u.first+u.paths; i++ {
		switch f := r.scanner.Found(i); {
		case f.Times > 1:
			return found{times: f.Times, fault: Repeated}
		case f.Times == 1:
			return costOf(f.Number)
		}
	}
	return found{}
}

// End returns the actual costs by unit, and the faults of the other units. whole reports whether the body was written
// to its end. A Reader ends once.
func (r *Reader) End(whole bool) (actual map[string]int64, faults map[string]Fault) {
	if r == nil {
		return nil, nil
	}
	if r.events != nil && whole {
		r.events.end()
	}
	for i := range r.plan.units {
		u, f := &r.plan.units[i], r.results[i]
		if u.inBody(f) {
			f = r.bodyResult(u, f, whole)
		}
		if f.times == 0 {
			f.fault = Missing
		}
		if f.fault != "" {
			if faults == nil {
				faults = map[string]Fault{}
			}
			faults[u.name] = f.fault
			continue
		}
		if actual == nil {
			actual = map[string]int64{}
		}
		actual[u.name] = f.cost
	}
	r.plan.averages.note(actual)
	return actual, faults
}

// bodyResult returns what the body says about a unit. f is what the events say.
func (r *Reader) bodyResult(u *unit, f found, whole bool) found {
	switch {
	case r.encoded:
		return found{times: 1, fault: Encoded}
	case r.failed():
		return found{times: 1, fault: NotJSON}
	case !whole:
		return found{times: 1, fault: Cut}
	case r.events != nil:
		return f
	case r.scanner.Complete():
		return r.at(u)
	case r.scanner.Begun():
		return found{times: 1, fault: NotJSON}
	}
	return found{} // without a body
}

// inHeader returns the cost that a header states.
func inHeader(values []string) found {
	switch len(values) {
	case 0:
		return found{}
	case 1:
		return costOf(strings.TrimSpace(values[0]))
	}
	return found{times: len(values), fault: Repeated}
}

// costOf returns the cost that a text states. It may have digits only.
func costOf(text string) found {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n > queue.MaxUnitCost {
		return found{times: 1, fault: Invalid}
	}
	return found{times: 1, cost: int64(n)}
}
