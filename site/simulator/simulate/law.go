package simulate

import (
	"slices"
	"time"

	"github.com/penstock/penstock/leaky"
)

// Law is the window law of a queue: in any window of length W, at most ceil((W + slack)/T) + burst - 1 jobs start. T is
// 1/rate.
type Law struct {
	Rate, Burst int64
	Slack       leaky.Instant
}

// Law returns the law that holds with these settings.
func (s Settings) Law() Law {
	return Law{Rate: s.Rate, Burst: s.Burst, Slack: leaky.Instant(s.Slack.Microseconds())}
}

// Allows returns the maximum number of starts in any window of length w, which must be positive.
func (l Law) Allows(w leaky.Instant) int64 {
	return (int64(w+l.Slack)*l.Rate+int64(second)-1)/int64(second) + l.Burst - 1
}

// Window is a half-open span of time and the number of jobs that start in it.
type Window struct {
	From, Length leaky.Instant
	Starts       int64
}

// Starts returns the instants at which jobs start, in order.
func Starts(jobs []Job) []leaky.Instant {
	var starts []leaky.Instant
	for _, job := range jobs {
		if job.Started {
			starts = append(starts, job.Start)
		}
	}
	slices.Sort(starts)
	return starts
}

// Most returns the window of length w with the most starts. If several have the most, it returns the first.
func Most(starts []leaky.Instant, w leaky.Instant) Window {
	most := Window{Length: w}
	first := 0
	for last, at := range starts {
		for starts[first] <= at-w {
			first++
		}
		if n := int64(last - first + 1); n > most.Starts {
			most.From, most.Starts = starts[first], n
		}
	}
	return most
}

// Spare returns the smallest number of further starts that the law would allow, over all windows. It is negative if a
// window breaks the law.
func (l Law) Spare(starts []leaky.Instant) int64 {
	spare := l.Allows(1)
	for i, from := range starts {
		for j := i; j < len(starts); j++ {
			spare = min(spare, l.Allows(starts[j]-from+1)-int64(j-i+1))
		}
	}
	return spare
}

// Curve returns, for windows of step, 2 x step and so on up to longest, the most starts in any such window.
func Curve(starts []leaky.Instant, step, longest time.Duration) []Window {
	var curve []Window
	for w := step; w <= longest; w += step {
		curve = append(curve, Most(starts, leaky.Instant(w.Microseconds())))
	}
	return curve
}
