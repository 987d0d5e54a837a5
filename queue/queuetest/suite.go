package queuetest

import (
	"slices"
	"testing"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// Open creates an empty store whose only clock is now, and closes it when the test ends. An engine with several
// partitions must have a method Partition(queue string) int.
type Open func(t testing.TB, now func() leaky.Instant) queue.Engine

// rule is one rule of the contract.
type rule struct {
	name  string
	check func(*rig)
}

// Run checks every rule on an engine, each on a store of its own. Afterwards it audits the store: the states must add up
// to the accepted jobs.
func Run(t *testing.T, open Open) {
	for _, chapter := range chapters {
		t.Run(chapter.name, func(t *testing.T) {
			for _, r := range chapter.rules {
				t.Run(r.name, func(t *testing.T) {
					rig := newRig(t, open, begins[chapter.name])
					r.check(rig)
					if !t.Failed() && !rig.closed {
						rig.audit()
					}
				})
			}
		})
	}
}

var chapters = []struct {
	name  string
	rules []rule
}{
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
	{"List", listRules},
	{"Purge", purgeRules},
	{"Replay", replayRules},
	{"TraceContext", traceRules},
	{"Pull", pullRules},
	{"Groups", groupRules},
	{"GroupTurns", groupTurnRules},
	{"GroupChange", groupChangeRules},
	{"GroupETA", groupETARules},
	{"GroupLimits", groupLimitRules},
	{"LimitPace", limitPaceRules},
	{"LimitQuota", limitQuotaRules},
	{"LimitChange", limitChangeRules},
	{"SpringForward", springRules},
	{"FallBack", autumnRules},
	{"Move", slices.Concat(moveRules, moveJobRules, movePullRules)},
	{"Timeline", timelineRules},
	{"Stops", stopRules},
	{"StopsDelivered", deliveredStopRules},
	{"Spared", sparedRules},
	{"Unused", unusedRules},
	{"Circuit", circuitRules},
	{"Slow", slowRules},
	{"Dead", deadRules},
	{"Adapt", adaptRules},
	{"Rules", ruleRules},
	{"RulesInUse", rulesInUseRules},
	{"Take", takeRules},
	{"TakeWorking", workingRules},
	{"RuleKeys", ruleKeyRules},
	{"RuleAppend", ruleAppendRules},
	{"RuleDefer", ruleDeferRules},
	{"RuleTraces", ruleTraceRules},
	{"Clock", clockRules},
	{"Documents", documentRules},
	{"Audit", slices.Concat(auditRules, auditTextRules, auditJobRules, auditBudgetRules)},
}
