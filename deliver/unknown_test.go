package deliver

import (
	"errors"
	"testing"

	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/queue"
)

// What may have been sent goes by the target where the queue does not say.
func TestUnknownByDefault(t *testing.T) {
	lost := errors.New("lost")
	for _, c := range []struct {
		on   string
		want queue.Verdict
	}{{queue.UnknownRetry, queue.Fail}, {queue.UnknownHold, queue.Hold}, {queue.UnknownDead, queue.Bury}} {
		said := drain.What(byDefault(drain.Trouble(drain.Unknown(lost)), c.on))
		if said.Verdict != c.want || said.Trouble != (c.want != queue.Bury) {
			t.Errorf("%s: %+v, want %v", c.on, said, c.want)
		}
	}
	if err := byDefault(lost, queue.UnknownDead); !errors.Is(err, lost) || drain.What(err).Verdict != queue.Fail {
		t.Errorf("what is no unknown became %v", err)
	}
}
