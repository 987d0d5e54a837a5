package replay

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/leaky"
)

// Limits bound a replay of untrusted logs. Zero fields set no bound.
type Limits struct {
	// Bytes is the maximum size of one log, unpacked, and Lines its maximum number of lines.
	Bytes int64
	Lines int
	// Hold is called with the replay's maximum memory in bytes, before it reads and then as it grows. Its error ends
	// the replay.
	Hold func(bytes int64) error
}

// TooLong is the error of a log that exceeds the limits; the exceeded one of Bytes and Lines is set.
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

// reader limits the reading of a log.
func (l Limits) reader(r io.Reader) io.Reader {
	if l.Bytes <= 0 {
		return r
	}
	return &bounded{r, l.Bytes, l.Bytes}
}

// bounded fails after a number of bytes.
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

// Memory costs in bytes, with the spare capacity of slices and maps. A test compares them with measurements.
const (
	sourceCost  = 2*MaxLineBytes + 4*Window*requestCost // two buffers of lines, and the lines being sorted
	requestCost = 48
	nameCost    = 160 // a key of a template, without its text
	keyCost     = 64  // a rule's state of the key
	repeatCost  = 384 // additional state for a repeated key
	slotCost    = 24  // a slot of a window
	entryCost   = 192 // a request, for rules that keep each
	waitCost    = 288 // a waiting job
)

// checkEvery is the number of lines, or of requests, between two checks. In between, keys of maximum length take about
// 256 KiB for each template.
const checkEvery = 256

// check ends a replay that was canceled, or that exceeds its memory.
func (p *play) check() error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	if hold := p.options.Limits.Hold; hold != nil {
		return hold(p.held())
	}
	return nil
}

// held returns roughly the memory in use, including what the logs and keys read so far will need.
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

// entries returns the maximum number of requests that a rule keeps.
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
