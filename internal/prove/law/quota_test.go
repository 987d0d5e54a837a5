package law

import (
	"reflect"
	"testing"
	"time"
)

func TestQuota(t *testing.T) {
	at := func(ms ...int) (list []Start) {
		for _, n := range ms {
			list = append(list, Start{At: time.Duration(n) * time.Millisecond})
		}
		return list
	}
	const ms = time.Millisecond
	q := Quota{Max: 3, Ends: []time.Duration{100 * ms, 200 * ms, 300 * ms}, Late: 10 * ms}
	for _, tt := range []struct {
		name   string
		starts []Start
		held   bool
		used   []int64
	}{
		{"nothing", nil, true, []int64{0, 0, 0, 0}},
		{"full windows", at(10, 20, 99, 100, 101, 102, 200, 201, 299, 300, 301, 302), true, []int64{3, 3, 3, 3}},
		{"one too many", at(10, 20, 30, 99), false, []int64{4, 0, 0, 0}},
		{"one seen late", at(20, 30, 109, 110, 120, 130), true, []int64{2, 4, 0, 0}},
		{"one seen too late", at(20, 30, 110, 111, 120, 130), false, []int64{2, 4, 0, 0}},
		{"late, but there was no room", at(20, 30, 40, 109, 110, 120, 130), false, []int64{3, 4, 0, 0}},
		{"too many in the last", at(310, 311, 312, 313), false, []int64{0, 0, 0, 4}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := q.Judge(tt.starts)
			if v.Held != tt.held || !reflect.DeepEqual(v.Used, tt.used) {
				t.Errorf("held %v, used %v, worst %+v; want %v, %v", v.Held, v.Used, v.Worst, tt.held, tt.used)
			}
		})
	}
	q.Steps = []int64{1, 2, 3}
	for _, tt := range []struct {
		name   string
		starts []Start
		held   bool
		most   []int64
	}{
		{"each window grows", at(50, 150, 151, 250, 251, 252, 350, 351, 352), true, []int64{1, 2, 3, 3}},
		{"a window without departures does not count", at(50, 250, 251), true, []int64{1, 2, 2, 3}},
		{"one too many", at(50, 250, 251, 252), false, []int64{1, 2, 2, 3}},
		{"one too many at first", at(50, 51), false, []int64{1, 2, 2, 2}},
		{"the first may be late", at(105, 150, 151), true, []int64{1, 2, 3, 3}},
		{"the first is no departure of the window before", at(110, 150), false, []int64{1, 1, 2, 2}},
	} {
		if v := q.Judge(tt.starts); v.Held != tt.held || !reflect.DeepEqual(v.Most, tt.most) {
			t.Errorf("%s: held %v, most %v, worst %+v; want %v, %v", tt.name, v.Held, v.Most, v.Worst, tt.held, tt.most)
		}
	}
	if v := (Quota{Max: 3, Ends: q.Ends}).Judge([]Start{{At: 5, Cost: 4}}); v.Held {
		t.Error("a cost of 4 was taken for 1")
	}
}
