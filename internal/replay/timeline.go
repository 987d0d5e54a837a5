package replay

import "github.com/penstock/penstock/leaky"

// maxSteps is the maximum number of steps in a timeline, which is more than a picture can show.
const maxSteps = 1000

// widths are the possible widths of a step, each a multiple of the one before.
var widths = []leaky.Instant{
	1_000, 10_000, 100_000, 1_000_000, 10_000_000, 60_000_000, 600_000_000, 3_600_000_000, 86_400_000_000,
	7 * 86_400_000_000, 70 * 86_400_000_000, 7000 * 86_400_000_000,
}

// timeline counts over time, in steps that become wider as the log proves longer.
type timeline struct {
	width  int // index into widths
	start  leaky.Instant
	sums   int // the number of columns that are sums; the others are maxima
	cols   int
	rows   [][]int64
	row    []int64
	rowEnd leaky.Instant
	enter  func(begin leaky.Instant, row []int64) // called at the start of each step, in order
}

// at returns the row of an instant, which must not precede the last one.
func (t *timeline) at(now leaky.Instant) []int64 {
	if t.row != nil && now < t.rowEnd {
		return t.row
	}
	if t.row == nil {
		t.start = now - now%widths[0]
	}
	for int64((now-t.start)/widths[t.width]) >= maxSteps {
		t.widen()
	}
	width := widths[t.width]
	for step := int((now - t.start) / width); len(t.rows) <= step; {
		row := make([]int64, t.cols)
		begin := t.start + leaky.Instant(len(t.rows))*width
		t.rows = append(t.rows, row)
		if t.enter != nil && begin <= now {
			t.enter(max(begin, 0), row)
		}
	}
	t.row = t.rows[len(t.rows)-1]
	t.rowEnd = t.start + leaky.Instant(len(t.rows))*width
	return t.row
}

// widen merges the steps into steps of the next width.
func (t *timeline) widen() {
	t.width++
	width := widths[t.width]
	start := t.start - t.start%width
	var rows [][]int64
	for i, row := range t.rows {
		at := t.start + leaky.Instant(i)*widths[t.width-1]
		step := int((at - start) / width)
		if len(rows) <= step {
			rows = append(rows, row)
			continue
		}
		for c, v := range row {
			if c < t.sums {
				rows[step][c] += v
			} else {
				rows[step][c] = max(rows[step][c], v)
			}
		}
	}
	t.start, t.rows = start, rows
}
