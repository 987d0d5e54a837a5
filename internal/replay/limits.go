package replay

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/leaky"
)

// Limits bound what a replay takes, for who replays what strangers send. Zero fields are no bound.
type Limits struct {
	// Bytes are those of one log, unpacked, and Lines its lines.
	Bytes int64
	Lines int
	// Hold is told how many bytes the replay holds, at most, before it reads and then as it goes on. Its error ends the
	// replay.
	Hold func(bytes int64) error
}

// TooLong is the error of a log that passes the limits: Bytes or Lines is the one that it passes.
type TooLong struct {
	Bytes int64
	Lines int
}

func (e *TooLong) Error() string {
	if e.Lines > 0 {
		return "has more than " + humanize.Comma(int64(e.Lines)) + " lines"
	}
	return fmt.Sprintf("has more than %s, unpacked", humanize.IBytes(uint64(e.Bytes)))
}

// reader reads what may be read of a log.
func (l Limits) reader(r io.Reader) io.Reader {
	if l.Bytes <= 0 {
		return r
	}
	return &bounded{r, l.Bytes, l.Bytes}
}

// bounded fails behind so many bytes.
type bounded struct {
	r          io.Reader
	left, most int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return 0, &TooLong{Bytes: b.most}
	}
	return n, err
}

// What things take in bytes, with the room that slices and maps keep free. A test holds them to what is measured.
const (
	sourceCost  = 2*MaxLineBytes + 4*Window*requestCost // two buffers of lines, and those that are put in order
	requestCost = 48
	nameCost    = 160 // a key among those of its template, beside its text
	keyCost     = 64  // what a rule knows of it
	repeatCost  = 384 // and of one that came again
	slotCost    = 24  // a slot of a window
	entryCost   = 192 // what a rule keeps of a request, if it keeps each
	waitCost    = 288 // a job that waits
)

// checkEvery is after how many lines, and after how many requests, check is called: so few that keys of the greatest
// length take about 256 KiB for each template in between.
const checkEvery = 256

// check ends a replay that nobody waits for any more, or that holds more than it may.
func (p *play) check() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if hold := p.options.Limits.Hold; hold != nil {
		return hold(p.held())
	}
	return nil
}

// held is how much memory is in use, about, with what the logs and the keys that were read are going to take.
func (p *play) held() int64 {
	n := int64(len(p.options.Logs))*sourceCost + int64(cap(p.second))*requestCost
	n += int64(len(p.timeline.rows)) * int64(64+8*p.timeline.cols)
	for _, r := range p.rings {
		n += int64(len(r.names))*nameCost + 2*r.bytes
	}
	for _, t := range p.trials {
		keys := max(cap(t.keys), len(p.rings[t.ring].names))
		n += int64(keys)*keyCost + t.repeats*repeatCost + t.slots*slotCost + t.entries()*entryCost
	}
	for _, s := range p.sims {
		n += (s.accepted - s.left) * waitCost
	}
	return n
}

// entries is how many requests a rule keeps, at most.
func (t *trial) entries() int64 {
	if t.rule.Algorithm != leaky.AlgorithmSlidingLog && t.rule.Algorithm != leaky.AlgorithmConcurrency {
		return 0
	}
	most := t.rule.Limit
	for _, o := range t.rule.Overrides {
		most = max(most, o.Limit)
	}
	if most <= 0 || int64(t.live) > t.counted/most {
		return t.counted
	}
	return int64(t.live) * most
}
