package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/test/browser"
)

// Ctrl-K finds a job from any page: by its id, and if no job has that id, by the beginning of ids.
func TestFindAJob(t *testing.T) {
	r := newRig(t)
	for i := range 3 {
		r.queue(fmt.Sprint("mail-", i), nil)
		r.must("POST", fmt.Sprintf("/v1/queues/mail-%d/jobs", i), fields{
			"id": fmt.Sprint("welcome-", i), "lane": "a.example", "payload": 1,
		})
	}
	p := r.signIn(browser.Options{})
	p.Go(r.url("/rules"))
	p.Until(`document.readyState === "complete"`)
	const ctrlK = `dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, cancelable: true }))`
	p.Until(`!` + ctrlK) // the page takes the key
	p.Until(`document.querySelector("dialog.seek").open && document.activeElement.name === "id"`)
	p.Press("welcome-1" + kb.Enter)
	p.Until(`location.pathname.endsWith("/find") && document.querySelectorAll("#found tbody tr").length === 1`)
	if text := p.Text("#found tbody"); !strings.Contains(text, "mail-1") || !strings.Contains(text, "waiting") {
		t.Errorf("found %q", text)
	}
	p.Click("#found th a")
	p.Until(`document.querySelector("#life").textContent.includes("waits for")`)
	p.Go(r.url("/find?id=welcome-"))
	p.Until(`document.querySelectorAll("#found tbody tr").length === 3`)
	p.Go(r.url("/find?lane=a.example"))
	p.Until(`document.querySelectorAll("#found tbody tr").length === 3`)
	p.Go(r.url("/find?id=nobody"))
	if text := p.Text(".none"); !strings.Contains(text, "No queue has such a job") {
		t.Errorf("a search for nothing says %q", text)
	}
	p.Fine()
}

// Dead jobs are grouped by reason, and a group can be deleted.
func TestFailuresByReason(t *testing.T) {
	t.Parallel() // it mostly waits
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Error(w, "no template "+q.Header.Get("Kind"), http.StatusBadRequest)
	}))
	defer receiver.Close()
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.queue("reports", fields{
		"pull": false, "rate": "unlimited", "capacity": 500, "deliver": fields{"http": fields{"url": receiver.URL}},
	})
	r.jobs("reports", 5, fields{"headers": fields{"Kind": "A"}})
	r.jobs("reports", 2, fields{"headers": fields{"Kind": "B"}})
	await.Until(t, "all jobs are dead", func() bool {
		return strings.Contains(r.must("GET", "/v1/queues/reports", nil), `"dead":7`)
	})
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/reports/jobs?state=dead"))
	p.Click(`a[href$="/failures"]`)
	p.Until(`document.querySelectorAll("#failures tbody tr").length === 2`)
	rows := `[...document.querySelectorAll("#failures tbody tr")].map((row) => row.cells[1].textContent.trim())`
	if got := browser.Value[[]string](p, rows); !strings.HasPrefix(got[0], "5") || !strings.HasPrefix(got[1], "2") {
		t.Errorf("the groups have %q", got)
	}
	p.Click("#failures tbody tr:nth-child(2) th a")
	p.Until(`document.querySelectorAll("#jobs tbody tr").length === 2`)
	p.Go(r.url("/queues/reports/failures"))
	const remove = "#failures tbody tr:first-child .action:last-child"
	p.Click(remove + " summary")
	p.Click(remove + " form button")
	p.Until(`document.querySelector("` + remove + ` form button").textContent.includes("5 jobs")`)
	p.Click(remove + " form button")
	p.Until(`document.querySelectorAll("#failures tbody tr").length === 1`)
	p.Fine()
}

func TestEndedJobsAreListed(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	r.queue("email", nil)
	for _, id := range []string{"a", "b"} {
		r.must("POST", "/v1/queues/email/jobs", fields{"id": id, "payload": 1})
		r.must("POST", "/v1/queues/email/jobs/"+id+"/cancel", nil)
	}
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/email/jobs?state=cancelled"))
	p.Until(`[...document.querySelectorAll("#jobs tbody th")].map((cell) => cell.textContent.trim()).join() === "b,a"`)
	p.Fine()
}
