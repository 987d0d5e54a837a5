package console_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/test/browser"
)

// The page of campaigns is a click from the queue, and shows progress, finish, failures and the slowest lane of each.
func TestCampaigns(t *testing.T) {
	r := newRig(t)
	r.queue("mail", fields{"rate": "1/s"})
	p := r.signIn(browser.Options{})
	p.Go(r.url("/queues/mail/batches"))
	if text := p.Text(".none"); !strings.Contains(text, "No campaigns") {
		t.Errorf("without batches the page says %q", text)
	}
	for i := range 60 {
		label := "spring"
		if i%2 == 1 {
			label = fmt.Sprintf("batch <%02d>", i)
		}
		r.must("POST", "/v1/queues/mail/jobs", fields{
			"id": fmt.Sprint("j", i), "lane": fmt.Sprint("lane", i%2), "batch": label, "payload": 1,
		})
	}
	for i := range 15 {
		r.must("POST", fmt.Sprintf("/v1/queues/mail/jobs/j%d/cancel", 2*i), nil)
	}
	r.must("POST", "/v1/queues/mail/jobs/j1/cancel", nil)
	p.Go(r.url("/queues/mail"))
	p.Click(`a[href$="/queues/mail/batches"]`)
	p.Until(`document.querySelectorAll("#batches tbody tr").length === 31`)
	row := func(label string) string {
		t.Helper()
		return p.Text(fmt.Sprintf("#batches tr[data-key=%q]", label))
	}
	if text := row("spring"); !strings.Contains(text, "15 / 30") || !strings.Contains(text, "never: waits for") ||
		!strings.Contains(text, "lane0") {
		t.Errorf("half of the jobs have ended, and no worker asks for the others: %q", text)
	}
	if text := row("batch <01>"); !strings.Contains(text, "1 / 1") || !strings.Contains(text, "ended") {
		t.Errorf("a batch that has ended says %q", text)
	}
	p.Fine()
}
