package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/proxy"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// The fields by which a caller says how its call waits.
const (
	headerLane     = "Penstock-Lane"
	headerCost     = "Penstock-Cost"
	headerCosts    = "Penstock-Costs"
	headerPriority = "Penstock-Priority"
	headerWait     = "Penstock-Wait"
	headerRetry    = "Penstock-Retry"
)

var callFields = []string{
	headerLane, headerCost, headerCosts, headerPriority, headerWait, headerRetry, proxy.HeaderAuthorization,
}

// readFields reads the fields of a call that begin with Penstock-.
func readFields(r *http.Request, c *proxy.Call) *httpio.Problem {
	for field, values := range r.Header {
		if !strings.HasPrefix(field, "Penstock-") {
			continue
		}
		if !slices.Contains(callFields, field) {
			return httpio.BadField(field, "is not a field of calls; they are "+strings.Join(callFields, ", "))
		}
		if len(values) > 1 {
			return httpio.BadField(field, "is given more than once")
		}
		if p := readField(c, field, values[0]); p != nil {
			return p
		}
	}
	return nil
}

func readField(c *proxy.Call, field, value string) *httpio.Problem {
	shown := httpio.Shorten(value)
	switch field {
	case headerLane:
		if err := queue.ValidateLane(value); err != nil {
			p := httpio.ProblemOf(err)
			p.Field = field
			return p
		}
		c.Lane = value
	case headerCost:
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil || n < 1 || n > leaky.MaxCost {
			return httpio.BadField(field, shown+" must be from 1 to "+strconv.Itoa(leaky.MaxCost))
		}
		c.Cost = n
	case headerCosts:
		costs, p := parseCosts(value)
		if p != nil {
			return p
		}
		c.Costs = costs
	case headerPriority:
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n > queue.MaxPriority {
			return httpio.BadField(field, shown+" must be from 0 to "+strconv.Itoa(queue.MaxPriority))
		}
		c.Priority = n
	case headerWait:
		var d unit.Duration
		if err := d.UnmarshalText([]byte(value)); err != nil {
			return httpio.BadField(field, shown+" must be a duration such as 30s")
		}
		if d.D() < minTurnWait || d.D() > maxCallWait {
			return httpio.BadField(field, "is "+d.String()+", must be from "+minTurnWait.String()+" to "+maxCallWait.String())
		}
		c.Within = d.D()
	case headerRetry:
		if value != "throttled" {
			return httpio.BadField(field, shown+" must be throttled, or left out")
		}
		c.Retry = true
	}
	return nil
}

// maxCallWait is the longest wait of a call. Callers that set it have no proxy in front that would give up.
const maxCallWait = 10 * time.Minute

// parseCosts parses costs by unit, such as "tokens=1800, images=2": a dictionary of structured fields (RFC 9651, 3.2)
// with integers only, each unit once.
func parseCosts(text string) (map[string]int64, *httpio.Problem) {
	costs := map[string]int64{}
	bad := func(reason string) *httpio.Problem {
		return httpio.BadField(headerCosts, httpio.Shorten(text)+" "+reason)
	}
	for member := range strings.SplitSeq(text, ",") {
		name, number, ok := strings.Cut(strings.Trim(member, " \t"), "=")
		switch err := queue.ValidateUnit(headerCosts, name); {
		case !ok:
			return nil, bad("must be units and whole numbers, such as tokens=1800, images=2")
		case err != nil:
			return nil, bad("names " + httpio.Shorten(name) + ", but units are lower-case letters, digits and _")
		case strings.Trim(number, "0123456789") != "":
			return nil, bad("gives " + name + " a cost that is not a whole number from 0 to " + strconv.Itoa(queue.MaxUnitCost))
		}
		if _, twice := costs[name]; twice {
			return nil, bad("names " + name + " twice")
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n > queue.MaxUnitCost {
			return nil, bad("gives " + name + " a cost that is not a whole number from 0 to " + strconv.Itoa(queue.MaxUnitCost))
		}
		costs[name] = n
	}
	if err := queue.ValidateCosts(headerCosts, costs); err != nil {
		return nil, bad("is not possible: " + err.Error())
	}
	return costs, nil
}
