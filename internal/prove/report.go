package prove

import (
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/prove/law"
	"github.com/penstock/penstock/internal/prove/receiver"
)

// Report is the outcome of a run.
type Report struct {
	Queue    string        `json:"queue"`
	Rate     string        `json:"rate"`
	Queues   int           `json:"queues"` // independent queues
	Children int           `json:"children"`
	Lanes    int           `json:"lanes"` // in each queue
	Drainers int           `json:"drainers"`
	Faults   Faults        `json:"faults"`
	Injected int           `json:"faults_injected"`
	Duration time.Duration `json:"duration_ns"`

	Account
	Law  LawReport  `json:"law"`
	Pace PaceReport `json:"pace"`
	// Levels are the queues, if there are several, and the lanes, each with its own rate. Quota is nil without a quota.
	Levels []LevelReport `json:"levels,omitempty"`
	Quota  *QuotaReport  `json:"quota,omitempty"`
	// Hours is nil without hours.
	Hours *HoursReport `json:"hours,omitempty"`
	// Limit is nil without a limit in a unit.
	Limit *LimitReport `json:"limit,omitempty"`
	// LostByStore, Released and Expired are the store's counts of lost slots, released jobs and expired leases.
	LostByStore int64 `json:"slots_lost_by_store"`
	Released    int64 `json:"released"`
	Expired     int64 `json:"leases_expired"`

	// Reference is the pace of one process that sleeps in a loop; nil if not measured.
	Reference *PaceReport `json:"reference,omitempty"`

	// Arrived is the number of requests, ByKernel the number stamped by the kernel. This process stamped the others
	// when it read them.
	Arrived  int `json:"arrivals"`
	ByKernel int `json:"arrivals_stamped_by_kernel"`
	// WorstStall is the longest time for which this process did not run. It does not affect arrivals stamped by the
	// kernel, and may explain others.
	WorstStall time.Duration `json:"receiver_stall_max_ns"`

	// Held is true if Broken is empty.
	Held   bool     `json:"held"`
	Broken []string `json:"broken"`

	perSecond float64
	arrivals  []time.Duration
	unstamped []time.Duration // arrivals not stamped by the kernel
	marks     []Mark
	stalls    []receiver.Stall
	started   time.Duration
	ended     time.Duration
}

// LawReport is the window law's verdict.
type LawReport struct {
	Held bool `json:"held"`
	// Slack is the queue's slack, Delta the tolerance for the way to the receiver. Needed is the smallest sum of both
	// under which the law holds.
	Slack  time.Duration `json:"slack_ns"`
	Delta  time.Duration `json:"delta_ns"`
	Needed time.Duration `json:"needed_ns"`
	// Most is the greatest number of starts in any 1 s, Allowed the law's limit.
	Most    int64      `json:"most_in_1s"`
	Allowed int64      `json:"allowed_in_1s"`
	Worst   law.Window `json:"worst_window"`
}

// PaceReport is law.Pace in JSON.
type PaceReport struct {
	Starts      int           `json:"starts"`
	Rate        float64       `json:"rate_per_s"`
	Share       float64       `json:"share_of_configured"`
	LostSlots   int64         `json:"lost_slots"`
	ShortGaps   float64       `json:"share_of_gaps_under_0.9_T"`
	GapP50      time.Duration `json:"gap_error_p50_ns"`
	GapP99      time.Duration `json:"gap_error_p99_ns"`
	GapMax      time.Duration `json:"gap_error_max_ns"`
	LatenessP50 time.Duration `json:"start_lateness_p50_ns"`
	LatenessP99 time.Duration `json:"start_lateness_p99_ns"`
	LatenessMax time.Duration `json:"start_lateness_max_ns"`
}

// Judge judges instants by a law.
func Judge(l law.Law, instants []time.Duration) LawReport {
	return judgeStarts(l, law.At(instants))
}

func judgeStarts(l law.Law, starts []law.Start) LawReport {
	v := l.Judge(starts)
	most, _ := law.Most(starts, time.Second)
	return LawReport{
		Held: v.Held, Slack: l.Slack, Delta: l.Delta, Needed: v.Needed, Most: most, Allowed: l.Allowed(time.Second),
		Worst: v.Worst,
	}
}

func measure(l law.Law, instants []time.Duration) PaceReport {
	p := law.Measure(l.Rate, instants)
	return PaceReport{
		Starts: p.Starts, Rate: p.Rate, Share: p.Share, LostSlots: p.LostSlots, ShortGaps: p.ShortGaps,
		GapP50: p.GapErrorP50, GapP99: p.GapErrorP99, GapMax: p.GapErrorMax,
		LatenessP50: p.LatenessP50, LatenessP99: p.LatenessP99, LatenessMax: p.LatenessMax,
	}
}

// conclude adds the broken laws. duplicates means that a job may arrive twice, as it may after a kill: the guarantee is
// at least once.
func (r *Report) conclude(duplicates bool) {
	broken := func(format string, args ...any) { r.Broken = append(r.Broken, fmt.Sprintf(format, args...)) }
	r.Broken = []string{}
	if r.Delivered < 2 {
		broken("only %d jobs arrived, which proves nothing", r.Delivered)
	}
	if r.Faults != NoFaults && r.Injected == 0 {
		broken("no fault was injected: the run was too short")
	}
	if !r.Law.Held {
		w := r.Law.Worst
		broken("the window law: %d starts in %v, from %v into the run, where %d are allowed; it needed slack + delta of "+
			"%v, but has %v%s",
			w.Starts, w.Width, (w.From - r.started).Round(time.Millisecond), w.Allowed, r.Law.Needed, r.Law.Slack+r.Law.Delta,
			r.stalledIn(w))
	}
	r.concludeLevels(broken)
	r.concludeQuota(broken)
	r.concludeHours(broken)
	r.concludeLimit(broken)
	if r.Lost > 0 {
		broken("%d accepted jobs never arrived, such as %v", r.Lost, r.LostIDs)
	}
	if r.Strangers > 0 {
		broken("%d arrivals had no accepted job, such as %v", r.Strangers, r.StrangerIDs)
	}
	if r.Twice > 0 && !duplicates {
		broken("%d jobs arrived again, without a fault to explain it", r.Twice)
	}
	r.Held = len(r.Broken) == 0
}

// stalledIn describes the stalls of this process in a window, which may make it look worse. Stalls move only arrivals
// without a kernel stamp.
func (r *Report) stalledIn(w law.Window) string {
	doubtful := 0
	for _, at := range r.unstamped {
		if at >= w.From && at < w.From+w.Width {
			doubtful++
		}
	}
	var most time.Duration
	for _, s := range r.stalls {
		if s.At <= w.From+w.Width && s.At+s.For >= w.From {
			most = max(most, s.For)
		}
	}
	if most == 0 || doubtful == 0 {
		return ""
	}
	return fmt.Sprintf(
		" (the kernel did not stamp %d of them, and this process, which measures, did not run for %v then: is the "+
			"machine busy with something else?)",
		doubtful, most.Round(time.Microsecond),
	)
}

// instants returns when the arrivals came.
func instants(arrivals []receiver.Arrival) []time.Duration {
	at := make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		at[i] = a.At
	}
	return at
}
