package jobrecord_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/jobrecord"
	"github.com/penstock/penstock/queue"
)

func TestTimelineRoundTrip(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	var stored []byte
	var want []queue.Attempt
	for n := range 50 {
		a := queue.Attempt{
			At: at, EndedAt: at.Add(time.Second), Drainer: fmt.Sprint("host:", n), Outcome: queue.AttemptOutcome(n % 5),
			Answer: strings.Repeat("é", n*5),
		}
		before := slices.Clone(stored)
		added := jobrecord.AppendAttempt(stored, a)
		if !slices.Equal(stored, before) {
			t.Fatal("the old timeline was written into")
		}
		stored, a.Answer, at = added, clip.Text(a.Answer, queue.MaxAnswerBytes), at.Add(time.Minute)
		if want = append(want, a); len(want) > queue.MaxTimeline {
			want = slices.Delete(want, 1, 2)
		}
		got, err := jobrecord.UnpackTimeline(stored)
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("after %d attempts: %v\n got %v\nwant %v", n+1, err, got, want)
		}
	}
	if most := 1 + queue.MaxTimeline*(18+queue.MaxDrainerBytes+queue.MaxAnswerBytes); len(stored) > most {
		t.Errorf("%d bytes, more than %d", len(stored), most)
	}
	for n := 1; n < len(stored); n++ {
		if got, err := jobrecord.UnpackTimeline(stored[:n]); err == nil || !errors.Is(err, queue.ErrCorrupt) {
			t.Fatalf("cut to %d bytes: %v, %v", n, got, err)
		}
		jobrecord.AppendAttempt(stored[:n], want[0]) // only expected to return
	}
}

func TestAttemptEndsBeforeItDeparts(t *testing.T) {
	end := time.UnixMicro(1_700_000_000_000_000)
	got, err := jobrecord.UnpackTimeline(jobrecord.AppendAttempt(nil, queue.Attempt{
		At: end.Add(time.Millisecond), EndedAt: end,
	}))
	if err != nil || len(got) != 1 || !got[0].At.Equal(end) {
		t.Errorf("got %v, %v", got, err)
	}
}
