package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/penstock/penstock/internal/test/browser"
)

// clicks counts the clicks of a task. Typing and pressing keys are none.
type clicks struct {
	*browser.Page
	n int
}

func (c *clicks) Click(selector string) {
	c.n++
	c.Page.Click(selector)
}

// says waits until an element contains a text.
func (c *clicks) says(selector, text string) {
	c.Until(`[...document.querySelectorAll("` + selector + `")].some((e) => e.textContent.includes("` + text + `"))`)
}

// What operators do most, from the overview, with a limit on clicks.
func TestTasks(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t, "--egress-allow", "127.0.0.1")
	r.world()
	r.listed("campaign")
	for _, task := range []struct {
		name string
		most int
		do   func(*clicks)
	}{
		{"why is mail late", 2, func(c *clicks) {
			c.Click(`tr[data-key="email.newsletter"] th a`)
			c.says(".does", "wrong link in the footer")
			c.says(".notice", "It continues when")
		}},
		{"why has this job not left", 2, func(c *clicks) {
			c.Until(`!dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, cancelable: true }))`)
			c.Type(".seek input", "hook-1")
			c.Press(kb.Enter)
			c.Click(`tr[data-key="webhooks/hook-1"] th a`)
			c.says("#job dd", "the receiver, which is down")
		}},
		{"when is the campaign done", 1, func(c *clicks) {
			c.says(`tr[data-key=campaign] .finish`, ":")
			c.Click(`tr[data-key=campaign] th a`)
			c.Until(`[...document.querySelectorAll("dl.facts div")].some((e) =>
				/^Finish\s*\d\d:\d\d.* UTC, in \d/.test(e.textContent.trim()))`)
		}},
		{"which lane of the campaign is slowest", 2, func(c *clicks) {
			c.Click(`tr[data-key=campaign] th a`)
			c.Click(`.actions a[href$="/lanes"]`)
			c.says(".lanes tbody tr:first-child", "gmail.com")
		}},
		{"find a job by its id", 2, func(c *clicks) {
			c.Click(`.nav a[href$="/find"]`)
			c.Type("#main input[name=id]", "welcome-17")
			c.Press(kb.Enter)
			c.Click(`tr[data-key="email/welcome-17"] th a`)
			c.says("h1", "welcome-17")
		}},
		{"create an app and a token", 4, func(c *clicks) {
			c.Click(`.nav a[href$="/apps"]`)
			c.Type("input[name=name]", "billing")
			c.Press(kb.Enter)
			c.Type(`textarea[name="prefixes:list"]`, "billing*")
			c.Click(`form[data-action=PUT] .do > button`)
			c.Text("#tokens")
			c.Click(`[data-key$="Create a token"] summary`)
			c.Click(`[data-key$="Create a token"] form .do > button`)
			c.says(".secret code", "ps_")
		}},
	} {
		t.Run(strings.ReplaceAll(task.name, " ", "_"), func(t *testing.T) {
			of := *r
			of.t = t
			c := &clicks{Page: of.signIn(browser.Options{})}
			c.Text(`tr[data-key=campaign]`)
			task.do(c)
			if c.n > task.most {
				t.Errorf("it takes %d clicks, at most %d are allowed", c.n, task.most)
			}
			c.Fine()
		})
	}
}
