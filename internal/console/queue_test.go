package console

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/unit"
)

// oneQueue is an API with one queue.
type oneQueue struct {
	fakeAPI
	queue wire.Queue
}

func (o *oneQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/queues/email":
		_ = json.NewEncoder(w).Encode(o.queue)
	case "/v1/queues/email/timetable":
		_ = json.NewEncoder(w).Encode(wire.Timetable{})
	default:
		o.fakeAPI.ServeHTTP(w, r)
	}
}

// The page of a queue shows its circuit: what counts as a failure, how many failures open it, and how many there were.
func TestCircuitIsShown(t *testing.T) {
	watched := queue.Circuit{Failures: 5, Slow: unit.Duration(10 * time.Second)}
	const slow = "no answer within 10 s is a failure"
	for _, c := range []struct {
		circuit queue.Circuit
		pull    bool
		state   *wire.Circuit
		want    string
	}{
		{watched, false, &wire.Circuit{State: "closed"}, "closed<small> · 0 of 5 failures · " + slow + "</small>"},
		{watched, false, &wire.Circuit{State: "open", Failures: 7}, "open<small> · 7 failed in a row · " + slow + "</small>"},
		{watched, true, &wire.Circuit{State: "closed", Failures: 1}, "closed<small> · 1 of 5 failures</small>"},
		{watched, false, nil, "closed<small> · 0 of 5 failures · " + slow + "</small>"},
		{queue.Circuit{Off: true}, false, &wire.Circuit{State: "closed"}, "off"},
	} {
		q := wire.Queue{Flow: &wire.Flow{CircuitState: c.state}}
		q.Name, q.Circuit, q.Pull = "email", c.circuit, c.pull
		page := visit(t, New(Options{API: &oneQueue{queue: q}}), "GET", "/console/queues/email", goodToken, nil)
		want := "<dt>Circuit</dt><dd>" + c.want + "</dd>"
		if page.StatusCode != http.StatusOK || !strings.Contains(page.body, want) {
			_, shown, _ := strings.Cut(page.body, "<dt>Circuit</dt>")
			t.Errorf("%+v: %d, shown is %.120s\nwant %s", c, page.StatusCode, shown, want)
		}
	}
}
