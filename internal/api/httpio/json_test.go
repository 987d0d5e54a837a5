package httpio

import (
	"runtime"
	"strings"
	"testing"
)

func TestTooMany(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want bool
	}{
		{`[1,2,3]`, false},
		{`[1,2,3,4]`, true},
		{`{"jobs":[{},{},{}]}`, false},
		{`{"jobs":[{},{},{},{}]}`, true},
		{`{"jobs":[{"a":1,"b":[1,2,3],"c":{"d":4}},{"reason":"a,b,c,d,e"},[5,6,7]]}`, false},
		{`{"a":[1,2,3],"b":[1,2,3]}`, false},
		{`{"a":1,"b":2,"c":3,"d":4,"e":[[],[],[],[]]}`, true},
		{`[1,2,3,4`, true},
		{`[1,,,,`, false},
		{``, false},
	} {
		if got := TooMany([]byte(c.raw), 3); got != c.want {
			t.Errorf("%s: %v", c.raw, got)
		}
	}
}

// To find out costs nothing like what it prevents.
func TestTooManyCostsNothing(t *testing.T) {
	raw := []byte(`{"jobs":[` + strings.Repeat("{},", 300_000) + `{}]}`)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if !TooMany(raw, 512) {
		t.Error("300,001 are not too many")
	}
	if runtime.ReadMemStats(&after); after.TotalAlloc-before.TotalAlloc > 256<<10 {
		t.Errorf("it takes %d bytes", after.TotalAlloc-before.TotalAlloc)
	}
}
