package queue

import (
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/invalid"
)

// MaxLineupLanes is how many lanes a Lineup names. The jobs of further lanes are only counted.
const MaxLineupLanes = 10_000

// Lineup is what a forecast is computed from: a queue as Get returns it, and what waits in it. Large queues are read in
// several steps, between which jobs may come and leave.
type Lineup struct {
	Info
	// Lanes are the lanes with waiting jobs, at most MaxLineupLanes. Their keys are not set.
	Lanes []LaneState
	// Due are the scheduled jobs, the first due first. Each entry may stand for several jobs.
	Due []DueJobs
	// Siblings are the other members of the queue's group that have jobs to let out, at most MaxSiblings.
	Siblings []Sibling
	// Flight is how long the jobs delivered last were in flight, at most MaxFlights of them, on average. It is 0 if that
	// is not known.
	Flight time.Duration
}

// MaxFlights is the maximum number of jobs behind Lineup.Flight.
const MaxFlights = 16

// PlainLineup returns the Lineup of a queue without reading more of it. ok is false if it must be read: jobs wait that
// lanes, limits of jobs in flight or other members of the group delay, or jobs are scheduled.
func (i *Info) PlainLineup() (l Lineup, ok bool) {
	s, head := &i.Spec, i
	if i.Parent != nil {
		head = i.Parent
	}
	limited := s.Ordered || s.MaxInFlight > 0 || s.Lanes.Paces() || len(s.Lanes.Overrides) > 0 || i.LanesRest
	if i.Scheduled > 0 || i.Waiting > 0 && (i.Lanes > 1 || limited) || head.Group.Waiting > i.Waiting {
		return Lineup{}, false
	}
	l.Info = *i
	if i.Waiting > 0 {
		l.Lanes = []LaneState{{LaneInfo: LaneInfo{Waiting: i.Waiting}, Cost: i.Ahead}}
	}
	return l, true
}

// LaneState is a lane of a queue.
type LaneState struct {
	LaneInfo
	Key    string // "" for the lane of jobs without one, and where keys are not set
	Digest LaneDigest
	Cost   int64 // of the waiting jobs, estimated from a few of them
}

// MaxDue is the maximum length of Lineup.Due.
const MaxDue = 64

// DueJobs are scheduled jobs that are due at about the same time.
type DueJobs struct {
	At         time.Time
	Lane       LaneDigest
	Jobs, Cost int64
}

// MaxSiblings is the maximum length of Lineup.Siblings.
const MaxSiblings = 100

// Sibling is another member of a group.
type Sibling struct {
	Waiting, Cost int64
	Rate          leaky.Rate
	Burst         int64
	Bucket        leaky.Bucket
	Weight        int64
}

// LanesRequest asks for lanes of a queue.
type LanesRequest struct {
	Queue string
	After LaneDigest // the last lane of the page before; zero to begin
	Limit int        // 1 to MaxLanesPage
}

// Validate checks the request. Its error is an *invalid.Error.
func (r *LanesRequest) Validate() error {
	return invalid.Range("limit", int64(r.Limit), 1, MaxLanesPage)
}

// MaxLanesPage is the maximum number of lanes in a page.
const MaxLanesPage = 250

// LanesPage is a page of the lanes of a queue that have waiting jobs, by digest.
type LanesPage struct {
	Lanes []LaneState // with their keys
	More  bool
}

// MeanCost returns the mean cost of a waiting, scheduled or appended job, at least 1.
func (l *Lineup) MeanCost(a ForecastAppend) float64 {
	jobs := a.Jobs + a.Deferred
	cost := jobs * max(1, a.Cost)
	for i := range l.Lanes {
		jobs, cost = jobs+l.Lanes[i].Waiting, cost+l.Lanes[i].Cost
	}
	for _, d := range l.Due {
		jobs, cost = jobs+d.Jobs, cost+d.Cost
	}
	if jobs == 0 {
		return 1
	}
	return max(1, float64(cost)/float64(jobs))
}
