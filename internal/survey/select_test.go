package survey_test

import (
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/queue/status"
)

func TestSelect(t *testing.T) {
	r := newRig(t, survey.Options{})
	for n, name := range []string{"c", "a", "b", "a.x"} {
		i := r.add(name)
		i.Waiting, i.Revision = int64(n), int64(n)
	}
	r.infos["b"].Pause.Since = r.now
	r.infos["a.x"].Waiting = 10
	s := r.after(0)
	for _, c := range []struct {
		query survey.Query
		want  string
		total int
	}{
		{survey.Query{}, "a a.x b c", 4},
		{survey.Query{Descending: true}, "c b a.x a", 4},
		{survey.Query{Sort: "fill", Descending: true}, "a.x b a c", 4},
		{survey.Query{Sort: "size"}, "c a b a.x", 4},
		{survey.Query{Sort: "state", Descending: true}, "b a a.x c", 4},
		{survey.Query{Sort: "in"}, "a a.x b c", 4},
		{survey.Query{States: []status.Code{status.Paused, status.Idle}}, "b c", 2},
		{survey.Query{Full: true}, "a.x", 1},
		{survey.Query{Text: "a"}, "a a.x", 2},
		{survey.Query{Visible: func(name string) bool { return name > "a" }}, "a.x b c", 3},
		{survey.Query{Limit: 2}, "a a.x", 4},
		{survey.Query{Limit: 2, Offset: 3}, "c", 4},
		{survey.Query{Limit: 2, Offset: 9}, "", 4},
	} {
		if c.query.Limit == 0 {
			c.query.Limit = 100
		}
		rows, total := s.Select(c.query)
		var list []string
		for _, row := range rows {
			list = append(list, row.Name)
		}
		if got := strings.Join(list, " "); got != c.want || total != c.total {
			t.Errorf("%+v: %q of %d, want %q of %d", c.query, got, total, c.want, c.total)
		}
	}
	for _, name := range survey.SortKeys() {
		if rows, _ := s.Select(survey.Query{Sort: name, Limit: 9}); len(rows) != 4 {
			t.Errorf("by %s there are %d", name, len(rows))
		}
	}
}
