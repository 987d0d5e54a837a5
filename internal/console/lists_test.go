package console_test

import (
	"fmt"
	"testing"

	"github.com/penstock/penstock/internal/test/browser"
)

// Long lists are paginated, so that no response grows without bound.
func TestListsHavePages(t *testing.T) {
	t.Parallel() // it mostly waits
	r := newRig(t)
	for i := range 101 {
		name := fmt.Sprintf("n%03d", i)
		r.must("PUT", "/v1/apps/"+name, fields{"prefixes": []string{name + "*"}})
		r.must("PUT", "/v1/rules/"+name, fields{"algorithm": "gap", "period": "1s"})
		r.must("PUT", "/v1/subjects/cert:"+name, fields{"grants": []fields{{"role": "view"}}})
		r.must("POST", "/v1/tokens", fields{"grants": []fields{{"role": "view"}}})
	}
	p := r.signIn(browser.Options{NoScript: true})
	for _, list := range []struct{ path, id string }{
		{"/rules", "rules"}, {"/apps", "apps"}, {"/tokens", "tokens"}, {"/tokens", "subjects"},
	} {
		rows := fmt.Sprintf(`document.querySelectorAll("#%s tbody th").length`, list.id)
		p.Go(r.url(list.path))
		if n := browser.Value[int](p, rows); n != 100 {
			t.Errorf("%s has %d rows", list.id, n)
		}
		p.Click(fmt.Sprintf(".scroll:has(#%s) + .pager a[rel=next]", list.id))
		p.Until(rows + " === 1 || " + rows + " === 3") // of tokens the operator's and the session, too
		p.Text("#" + list.id)
	}
	p.Fine()
}
