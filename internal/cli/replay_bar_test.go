package cli

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Where nobody sees a bar, a long run says now and then how far it is, and a short one nothing.
func TestReadBarElsewhere(t *testing.T) {
	for size, want := range map[int64]string{
		400: "read 150 B of 400 B, 30 B/s, about 8.3s left\nread 250 B of 400 B, 25 B/s, about 6.0s left\n",
		-1:  "read 150 B, 30 B/s\nread 250 B, 25 B/s\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			bar := newReadBar(&out)
			in := bar.watch(strings.NewReader(strings.Repeat("x", 400)), size)
			read := func(n int, at time.Duration) {
				time.Sleep(at - time.Since(bar.started))
				if _, err := in.Read(make([]byte, n)); err != nil {
					t.Fatal(err)
				}
			}
			read(50, time.Second)
			read(100, 5*time.Second)
			read(50, 9*time.Second)
			read(50, 10*time.Second)
			bar.end()
			if out.String() != want {
				t.Errorf("%d:\n%s", size, &out)
			}
		})
	}
}

// So does a run of prove, every 5 s.
func TestTickerElsewhere(t *testing.T) {
	var out strings.Builder
	ticker := newTicker(&out)
	for s := range 16 {
		ticker.show(time.Duration(s)*time.Second, time.Duration(s*int(time.Second)).String())
	}
	ticker.end()
	if out.String() != "5s\n10s\n15s\n" {
		t.Errorf("it says %q", &out)
	}
}
