package queuetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/internal/jobsize"
)

// Open creates an empty store whose only clock is now, and closes it when the test ends. An engine with several
// partitions must have a method Partition(queue string) int.
type Open func(t testing.TB, now func() leaky.Instant) queue.Engine

// rule is one rule of the contract.
type rule struct {
	name  string
	check func(*rig)
}

// Run checks every rule on an engine, each on a store of its own. Afterwards it audits the store: the states must add
// up to the accepted jobs.
func Run(t *testing.T, open Open) { RunPart(t, Part{}, open) }

// Part is a part of the contract. The zero value is all of it.
type Part struct {
	Chapters Chapters
	// Every selects every nth rule, a different one of each chapter. 0 selects all.
	Every int
}

// Chapters is a set of chapters. Zero is all of them.
type Chapters int

// The kinds of chapters. Only the concurrent chapters can show a race, so they should run under the race detector.
const (
	Concurrent Chapters = 1 << iota // several goroutines share the engine, or a call goes to several partitions
	Sequential                      // one goroutine calls the engine
	Forecasts                       // scenarios: what a forecast says happens; they take as long as all others
)

func (c Chapters) include(chapter string) bool {
	switch {
	case c == 0:
		return true
	case strings.HasPrefix(chapter, "Forecast"):
		return c&Forecasts != 0
	case concurrent[chapter]:
		return c&Concurrent != 0
	}
	return c&Sequential != 0
}

// RunPart is Run for a part of the rules. For example, one store of an engine can check all rules, and another a few.
func RunPart(t *testing.T, part Part, open Open) {
	for i, chapter := range chapters {
		if !part.Chapters.include(chapter.name) {
			continue
		}
		t.Run(chapter.name, func(t *testing.T) {
			for j, r := range chapter.rules {
				if (i+j)%max(part.Every, 1) != 0 {
					continue
				}
				t.Run(r.name, func(t *testing.T) {
					rig := newRig(t, open, begins[chapter.name])
					rig.concurrent = concurrent[chapter.name]
					r.check(rig)
					if !t.Failed() && !rig.closed {
						rig.audit()
					}
				})
			}
		})
	}
}

// chapter is a list of rules about one subject.
type chapter struct {
	name  string
	rules []rule
}

// concurrent are the chapters that Concurrent selects.
var concurrent = map[string]bool{
	"Correct": true,
	"Append":  true, "OnceIn": true, "Watch": true, "Settle": true, "Held": true, "Calls": true, "Crowd": true,
	"Offer": true, "ReadmitOrder": true, "Room": true, "Cancel": true, "ExpiryCrowd": true, "OverflowCrowd": true,
	"LaneCapacity": true, "Replay": true, "Pull": true, "Stops": true, "Take": true, "RuleTraces": true,
	"Documents": true, "Audit": true,
}

var chapters = []chapter{
	{"Append", appendRules},
	{"Full", fullRules},
	{"Bytes", bytesRules},
	{"BytesOverflow", bytesOverflowRules},
	{"BytesKept", bytesKeptRules},
	{"OnceIn", onceRules},
	{"Pace", paceRules},
	{"Reserve", reserveRules},
	{"Lost", lostRules},
	{"Watch", watchRules},
	{"Shares", shareRules},
	{"Lease", leaseRules},
	{"Settle", settleRules},
	{"Release", releaseRules},
	{"Held", slices.Concat(heldRules, heldAmongRules)},
	{"Unknown", unknownRules},
	{"Patience", patienceRules},
	{"Specs", specRules},
	{"Pause", pauseRules},
	{"Changes", changeRules},
	{"ChangesKept", changesKeptRules},
	{"ChangesOfJobs", changesOfJobsRules},
	{"Rollback", rollbackRules},
	{"Delete", deleteRules},
	{"Statistics", statisticsRules},
	{"Status", statusRules},
	{"Readings", readingRules},
	{"Distance", distanceRules},
	{"Job", jobRules},
	{"Calls", callRules},
	{"Crowd", crowdRules},
	{"Offer", offerRules},
	{"Places", placesRules},
	{"DeferredOnce", deferredOnceRules},
	{"DeferredETA", deferredETARules},
	{"Lapsed", lapsedRules},
	{"Withdraw", withdrawRules},
	{"Readmit", readmitRules},
	{"ReadmitOrder", readmitOrderRules},
	{"ReadmitDone", readmitDoneRules},
	{"ReadmitClosed", readmitClosedRules},
	{"ReadmitDead", readmitDeadRules},
	{"Backlog", backlogRules},
	{"Announce", announceRules},
	{"Generations", generationRules},
	{"Room", roomRules},
	{"Cancel", cancelRules},
	{"Expiry", expiryRules},
	{"ExpiryOnTime", onTimeRules},
	{"ExpiryIndex", expiryIndexRules},
	{"ExpiryCrowd", expiryCrowdRules},
	{"OverflowCalls", overflowCallRules},
	{"OverflowCrowd", overflowCrowdRules},
	{"Lanes", laneRules},
	{"LaneTurns", laneTurnRules},
	{"LaneRate", laneRateRules},
	{"LaneLimits", laneLimitRules},
	{"Weights", weightRules},
	{"LiveChange", liveChangeRules},
	{"LaneChange", laneChangeRules},
	{"Flight", flightRules},
	{"LaneFlight", laneFlightRules},
	{"LaneCapacity", laneCapacityRules},
	{"Priority", priorityRules},
	{"Schedule", scheduleRules},
	{"Ordered", orderedRules},
	{"Deadline", deadlineRules},
	{"OverflowLanes", overflowLaneRules},
	{"Why", whyRules},
	{"Quote", quoteRules},
	{"Timetable", timetableRules},
	{"Forecast", scenarioRules(forecastScenarios())},
	{"ForecastAutumn", scenarioRules(autumnScenarios)},
	{"List", listRules},
	{"Find", findRules},
	{"Batches", batchRules},
	{"Purge", purgeRules},
	{"Replay", replayRules},
	{"TraceContext", traceRules},
	{"Pull", pullRules},
	{"Groups", groupRules},
	{"PullChildren", pullChildRules},
	{"GroupTurns", groupTurnRules},
	{"GroupChange", groupChangeRules},
	{"GroupETA", groupETARules},
	{"GroupLimits", groupLimitRules},
	{"LimitPace", limitPaceRules},
	{"LimitQuota", limitQuotaRules},
	{"LimitChange", limitChangeRules},
	{"Ramps", rampRules},
	{"SpringForward", slices.Concat(springRules, hoursSpringRules)},
	{"Hours", hoursRules},
	{"FallBack", autumnRules},
	{"Move", slices.Concat(moveRules, moveQueueRules, moveJobRules, movePullRules)},
	{"Timeline", timelineRules},
	{"Stops", stopRules},
	{"StopsDelivered", deliveredStopRules},
	{"Spared", sparedRules},
	{"Unused", unusedRules},
	{"Circuit", circuitRules},
	{"Slow", slowRules},
	{"Dead", deadRules},
	{"Adapt", adaptRules},
	{"Learn", learnRules},
	{"Units", unitRules},
	{"Learned", learnedRules},
	{"Rules", ruleRules},
	{"RulesInUse", rulesInUseRules},
	{"Take", takeRules},
	{"Correct", correctRules},
	{"TakeWorking", workingRules},
	{"RuleKeys", ruleKeyRules},
	{"RuleAppend", ruleAppendRules},
	{"RuleDefer", ruleDeferRules},
	{"RuleTraces", ruleTraceRules},
	{"Clock", clockRules},
	{"Documents", documentRules},
	{"Samples", sampleRules},
	{"Audit", slices.Concat(auditRules, auditTextRules, auditJobRules, auditBudgetRules)},
}

// audit checks invariant 5: each job that was accepted or set aside is in exactly one state, and the store's totals are
// the sums over its queues. The totals show that the jobs recorded as deferred are the remaining ones; Info.Deferred
// may instead be the number seen behind.
func (r *rig) audit() {
	r.Helper()
	var sum queue.Totals
	for _, i := range r.all() {
		in := i.Appended + i.SetAside + i.Replayed + r.beside[i.Spec.Name]
		held := i.Waiting + i.Scheduled + i.Leased + i.Held + i.Delivered + i.Died + i.Cancelled + i.TimedOut + i.Returned +
			i.Missing
		recorded := in - held
		if recorded < 0 || recorded > i.Deferred {
			r.Errorf("%s: %d accepted, set aside and replayed, %d beside the records, but %d waiting + %d scheduled "+
				"+ %d leased + %d held + %d delivered + %d died "+
				"+ %d cancelled + %d timed out + %d returned + %d missing = %d, and %d deferred", i.Spec.Name,
				i.Appended+i.SetAside+i.Replayed, r.beside[i.Spec.Name],
				i.Waiting, i.Scheduled, i.Leased, i.Held, i.Delivered, i.Died, i.Cancelled, i.TimedOut, i.Returned,
				i.Missing, held, i.Deferred)
		}
		if i.Waiting < 0 || i.Scheduled < 0 || i.Leased < 0 || i.Held < 0 || i.Dead < 0 ||
			i.Dead > i.Died && !r.former[i.Spec.Name] {
			r.Errorf("%s: impossible counts: %+v", i.Spec.Name, i)
		}
		if (i.Waiting == 0) != i.OldestWaiting.IsZero() {
			r.Errorf("%s: %d waiting, the oldest since %v", i.Spec.Name, i.Waiting, i.OldestWaiting)
		}
		if i.Bytes < i.Size()*jobsize.Overhead || (i.Bytes == 0) != (i.Size() == 0) {
			r.Errorf("%s: %d jobs take %d bytes", i.Spec.Name, i.Size(), i.Bytes)
		}
		if i.DeadBytes < i.Dead*jobsize.Overhead || (i.DeadBytes == 0) != (i.Dead == 0) {
			r.Errorf("%s: %d dead jobs take %d bytes", i.Spec.Name, i.Dead, i.DeadBytes)
		}
		if i.DeferredBytes < recorded*jobsize.Overhead || (i.DeferredBytes == 0) != (recorded == 0) {
			r.Errorf("%s: %d deferred jobs take %d bytes", i.Spec.Name, recorded, i.DeferredBytes)
		}
		sum.Queues++
		sum.Waiting += i.Waiting
		sum.Scheduled += i.Scheduled
		sum.Leased += i.Leased
		sum.Held += i.Held
		sum.Deferred += recorded
		sum.Dead += i.Dead
	}
	for _, d := range r.deadQueues() {
		if d.Gone {
			sum.Dead += d.Dead
		}
	}
	if got, err := r.e.Totals(r.ctx); err != nil || got != sum {
		r.Errorf("totals are %+v, %v; the queues add up to %+v", got, err, sum)
	}
}

// all returns every queue, read in pages.
func (r *rig) all() []queue.Info {
	r.Helper()
	var all []queue.Info
	for after := ""; ; {
		page, err := r.e.List(r.ctx, after, 100)
		if err != nil {
			r.Fatalf("list: %v", err)
		}
		all = append(all, page...)
		if len(page) < 100 {
			return all
		}
		after = page[len(page)-1].Spec.Name
	}
}
