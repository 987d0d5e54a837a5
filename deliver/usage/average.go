package usage

import "sync"

// averages are what calls use on average, by unit.
type averages struct {
	mu     sync.Mutex
	byUnit map[string]*average
}

type average struct {
	calls int
	value float64
}

// averageOf is the number of calls that an average is about. Costs of language models vary so much that fewer would
// mislead.
const averageOf = 64

// note adds what a call has used. A call that used nothing was refused.
func (a *averages) note(actual map[string]int64) {
	if len(actual) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byUnit == nil {
		a.byUnit = map[string]*average{}
	}
	for unit, n := range actual {
		if n == 0 {
			continue
		}
		of := a.byUnit[unit]
		if of == nil {
			of = &average{}
			a.byUnit[unit] = of
		}
		of.calls = min(of.calls+1, averageOf)
		of.value += (float64(n) - of.value) / float64(of.calls)
	}
}

// PerCall returns what a call uses on average, by unit, as the latest answers have stated it. As long as these are few,
// what is charged for a call counts for the others.
func (p *Plan) PerCall(charged map[string]int64) map[string]float64 {
	if len(charged) == 0 {
		return nil
	}
	perCall := make(map[string]float64, len(charged))
	for unit, n := range charged {
		perCall[unit] = float64(n)
	}
	if p == nil {
		return perCall
	}
	p.averages.mu.Lock()
	defer p.averages.mu.Unlock()
	for unit, estimate := range perCall {
		if of := p.averages.byUnit[unit]; of != nil {
			perCall[unit] += (of.value - estimate) * float64(of.calls) / averageOf
		}
	}
	return perCall
}
