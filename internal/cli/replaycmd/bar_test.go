package replaycmd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Without a terminal a long run prints now and then how far it is, and a short one prints nothing.
func TestReadBarWithoutATerminal(t *testing.T) {
	for size, want := range map[int64]string{
		400: "reading 150 B of 400 B, 30 B/s, about 8.3s left\nreading 250 B of 400 B, 25 B/s, about 6.0s left\n",
		-1:  "reading 150 B, 30 B/s\nreading 250 B, 25 B/s\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out strings.Builder
			bar := newReadBar(&out)
			started := time.Now()
			in := bar.watch(strings.NewReader(strings.Repeat("x", 400)), size)
			read := func(n int, at time.Duration) {
				time.Sleep(at - time.Since(started))
				if _, err := in.Read(make([]byte, n)); err != nil {
					t.Fatal(err)
				}
			}
			read(50, time.Second)
			read(100, 5*time.Second)
			read(50, 9*time.Second)
			read(50, 10*time.Second)
			bar.End()
			if out.String() != want {
				t.Errorf("%d:\n%s", size, &out)
			}
		})
	}
}
