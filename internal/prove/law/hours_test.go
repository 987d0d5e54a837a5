package law

import (
	"reflect"
	"testing"
	"time"
)

func TestHours(t *testing.T) {
	const ms = time.Millisecond
	h := Hours{Open: []Span{{100 * ms, 200 * ms}, {300 * ms, 400 * ms}}, Late: 10 * ms}
	v := h.Judge([]Start{
		{At: 100 * ms}, {At: 199 * ms}, {At: 200 * ms}, {At: 210*ms - 1}, {At: 399 * ms},
	})
	if v.Outside != 0 || !reflect.DeepEqual(v.Starts, []int64{4, 1}) {
		t.Errorf("%+v", v)
	}
	v = h.Judge([]Start{{At: 500 * ms}, {At: 210 * ms}, {At: 300*ms - 1}, {At: 300 * ms}, {At: 100*ms - 1}})
	if v.Outside != 4 || v.First != 100*ms-1 || !reflect.DeepEqual(v.Starts, []int64{0, 1}) {
		t.Errorf("%+v", v)
	}
}
