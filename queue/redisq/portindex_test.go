package redisq

import (
	stdflag "flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

//go:generate go test -vet=off -run ^TestIndexOfTheMachinesFunctions$ . -args -update
var update = stdflag.Bool("update", false, "write lua/index.txt again")

// withoutScript lists functions of the machine that no script has, by the reason.
var withoutScript = map[string]string{
	"order and look up: sorted sets and hashes of Redis do that": `
		byBatchEnd keepEnded countOf forgetOthers ownBatches upcoming
		above all armExpiring armTimer at byDeadline byDigest byDue byEndTime byName byTag byTurn byUntil close
		deadBytesOf deadCountOf deadJobsOf discardQueue down dropDead endedState expired fifoOf
		find fireTimers fix from front hashOf home id len needExtra newAgenda newCalendars newEndedJob
		newExpiring newGroup newLaneTurns newLanes newLater newLeases newTimers next nextTimer nextToTrim
		nextWithDead of pop popLast push pushTo putScheduled rank readyScheduled remove removeAt scheduledUntil
		seek size storeLane top trimSome untilExpiry up updateHeap wakeForExpiry widen`,
	"compute a forecast or list lanes, which is the same code for both engines once a script has read the lineup": `
		budgetTap limitLane dam scale addDeferred addLanes addSiblings addStations bend burst depth divide earns waterFill
		ensureOverflow
		extrapolate fill fillGroup flow flowIn forecast hours inAll inHours isExact jobsLeft lastPart newOpenHours seconds
		since spans unpass unpassOne keepRates kind lanes level limitInFlight
		newForecaster newPool newRehearsal ownPools passMarks places pool pour remaining renew run runDry simplified
		station stop sum tap verdict waitingLanes whole within`,
	"read or write the file of boltq, or the state that it is loaded into": `
		auditJobAct auditLog audited listed beginAudit budget budgetKey chains clockOf counters decode decodeAudit
		decodeAuditNumber decodeDeferral decodeEnded decodeJob decodeLease decodePaces decodeQueue decodeSpec
		deferred deletedKey deletedUntil deletedUntilKey dropDeferral dropEnded dropJob dropKeys dropLeftPaces
		dropNamed dropOld dropQueue dropRetention dropRule dropTally each encode encodeDeferral encodeEnded
		encodeJobHead encodeLease encodePaces encoded entries err errChangeLog forEach forgetLog getRecord
		getStore getTimeline imports initialise jobs key lastCommit lastNumber loadAdapted loadFailures
		loadSamples sampleKey
		loadLeftPaces loadQueues loadRules loadStore moveJob newQueueState newest newestOf putAdapted
		dropBatch putBatch batchKey debtsKey dropDebts inDebt keepDebts loadDebts putDebts restoreDebts
		putDeferral putEnded putFailures putImport putJob putLease putLeftPaces putNamed putQueue putRetention
		putSpec putStore putTally queueSubject raw readHead readTallies recreate restoreLease retentions
		ruleSubject sizeDead versions writeLog writeOne fields number octet eachQueue code codeTallyHead intern
		keysWith lastBefore changeFields blob decoder`,
	"belong to commits, which take effect later; a script takes effect at once": `
		addIncoming addTally countIncomingLane countWaitingLane allowsMore arrive arriving arrivingBefore ceilings
		clients collect collectLast commitOf complete covers dropLease dropTallies durable failing forgetForMemory formerPaces
		holdGrants holdLane jobLike lastWait lease leases lookahead max neededCeilings newCommit noteCost
		oneGrantBudget oneGrantCeilings oneGrantTAT uncorrect countOwed owedAudits paces pending pendingBytes
		persistLease pickWindows queue
		raiseForGrant raiseWithAppend raisedAhead readySince removeIncoming replaceCeilings reservePlace
		restore restoredBucket ripe signals stateToBe stretchedCeiling successor takeAgain takeBackPersisted
		takeQuotas tallies tally tat touch unlessDurable wait waitsForDeferral waitsForEnded waitsForGrants
		waitsForJob want`,
	"do what the Go of this package does before or after a script": `
		again asStored shown cameIn checkRequest checkRuleNames completeImported condition countRuleUses
		deadFrom deadJobFound decideDocument decodeChange deferredJobInfo document documentKey
		documentNow drainers dueAfter encodeChange encodeDocument endedJobInfo exportQueue findAsks findRules
		forgetDocuments formatPair getMany grantFresh hasLog importNotOpen importedCounters info infoWithParent
		jobInfo laneAfter lastAsked leasesOf limiterFor list liveQueue loggedBy new newAppending newRule
		newRuleText newSpecText parseFence parsePair parseTicket pauseLapsed prepare queueByQueue rate readDead
		readKnownDocument readRecord readSpecs resumeAtLane rollback ruleInfo ruleNamed setRule specTextBy
		state subjectState text unknown unknownQueue unknownRule unpack withSpecs withUnwritten`,
	"are written out where scripts need them, or are part of other steps there": `
		unstated typical learnedIn learnedCosts
		joins keptTag resumes active activePauses adapt addToLane addWaiting admitNew after agendaOf ahead aliveClients
		allCounters allDefer allLanesBlocked answerDeferred answerDuplicate apartInLane appendOutcome arm
		armAndWake askRules asksBy asksFor atMaxInFlight attempt bury busy bytes canDepart cancelled chargeRules
		checkPullRelations checkRevision childrenOf conditionChanged costBounds countBack countChild
		countOutcome credit crossedZero deferral deferralLapsed departure dropLanes dropLapsed dropRecord
		eachRefunded empty endIdle endLeased endPauseIfOver endPauses endVisit engine ensureDefaultLane
		ensureLease enter eta findDead fingerprintOf forgetIdleLanes forgetLane forgetLapsed forgetTallies
		freeEmpty freePlaces freeSince fullSpec gap grantsFrom groupLoad groupLoadIncoming groupMaxCost
		groupVerdict hasPace heldUpByLanes idle importedLease incomingBefore incomingOf incomingTotal instantOf
		interval intervals isParent isPullChild job jobsKept judgeETA keepSpec keyed known lane laneDigest laneGranted
		laneWeights laneRetryAfter lanesTakeTurns leastJobs leaveBehind lookAfter lostSlots markSeen memberOpened
		memberTurn namesBehind
		neededUntil needsSweep negative newLimit newReadmission newReturning newShares noneWaits notPlain note
		notePause noteServed onAgenda onOverflow opens outlookOf outlookOfNew ownOverflow
		batch batchOfDeferral deferWith holdBatch jobBatch
		ownVerdict pace pacing parent passOverGroup patience pauseOf paused peekRule plus possible priority
		priorityOf pullQueueOf pushWaiting ranOut rateSignal recountWeights rearm rearmAndWake rearmGroup recall recalling
		recordOf release removeDeferral removeJob renewCalendar repairBuckets reposition restorePassed rule
		runnable said sameLanes scheduleRetryAfter setExpiry setSpec setState sleeps slowestRate
		staysDead stillDelays stopOverAt sweepGarbage takeBuckets takeOffAgenda takeTurns takesMuchMemory
		throttledOutcome timersOf tooLargeReason tooLateReason tooOldReason trackInFlight tryMember turnBase
		turnOf unblock unknownPace untilLeaseOrExpiry untilPulled verdictBy wakeForQueue wakePullers
		wakeToLook wall whyNotLeft withSpec wouldExpire atVisitLimit cursorAt eachWaiting waitingOf countReadmitted paced
		quotas noteBefore moveUpTo budgets verdictOf unitsOf grantOfMember bill quotaTurn heldStep reason setCosts setShown
		correct lateness`,
	"keep tallies in memory; scripts have them in keys, see tally.lua and rulekeys.lua": `
		applyTo asksAgain chargesDurable checkFirst checkSooner decideTake decodeTally differs discardTallies
		findLostUntil firstCounted forgetExpiredTallies forgetLost forgetTally insertTally keepCorrected keys
		markDirty newTally newTallySet newTallySets nextTallyCheck noteCharge noteTake pack readAs reorder
		keepTally over repack restoreOrFresh saveTallies setOverrides shard stateFor takeFirst takeOne tallyAt tallyOf
		tallySetFor unsavedTallies withoutCharges writeOwed tallyToAsk`,
	"serve checks, forecasts and simulations of the machine": `
		byKey checkJobs cursor depart expects first goes last newMemory prev sequence
		setSequence shownQueue slot table update view`,
}

// scriptsOf returns the scripts that have a function or are one, by its name in lower case.
func scriptsOf(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := fs.Glob(luaFiles, "lua/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	scripts := map[string][]string{}
	for _, p := range paths {
		text, err := fs.ReadFile(luaFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		file := strings.TrimSuffix(strings.TrimPrefix(p, "lua/"), ".lua")
		if call := path.Base(file); path.Dir(file) == "calls" {
			name, listed := callOf[call]
			if !listed {
				name = call
			}
			names = append(names, name)
		}
		for _, m := range luaFunction.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
		for _, name := range names {
			if name = strings.ToLower(name); !slices.Contains(scripts[name], file) {
				scripts[name] = append(scripts[name], file)
			}
		}
	}
	return scripts
}

// Each function of queue/machine is in a script under its name, or withoutScript says why not. lua/index.txt shows it.
func TestIndexOfTheMachinesFunctions(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("The functions of queue/machine, by file, and the scripts that have them under the same names.\n" +
		"Generated by: go generate ./queue/redisq. A number in place of a script is the reason why none has it:\n\n")
	reason, listed := map[string]int{}, map[string]bool{}
	for i, why := range slices.Sorted(maps.Keys(withoutScript)) {
		fmt.Fprintf(&b, "%d  These %s.\n", i+1, why)
		for _, name := range strings.Fields(withoutScript[why]) {
			reason[name] = i + 1
		}
	}
	scripts, machine := scriptsOf(t), machineFunctions(t)
	for _, file := range slices.Sorted(maps.Keys(machine)) {
		fmt.Fprintf(&b, "\n%s.go\n", file)
		without := map[int]string{}
		for _, name := range slices.Compact(slices.Sorted(slices.Values(machine[file]))) {
			where, why := scripts[strings.ToLower(name)], reason[name]
			listed[name] = true
			switch {
			case where == nil && why == 0:
				t.Errorf("%s.go: no script has %s, and withoutScript does not say why", file, name)
			case where != nil && why != 0:
				t.Errorf("%s is in %s, and withoutScript says why it is in none", name, where)
			case where == nil:
				without[why] += " " + name
			default:
				fmt.Fprintf(&b, "  %s: %s\n", name, strings.Join(where, " "))
			}
		}
		for _, why := range slices.Sorted(maps.Keys(without)) {
			fmt.Fprintf(&b, "  %d:%s\n", why, without[why])
		}
	}
	for name := range reason {
		if !listed[name] {
			t.Errorf("withoutScript lists %s, but queue/machine has no function of that name", name)
		}
	}
	if *update {
		if err := os.WriteFile("lua/index.txt", []byte(b.String()), 0o644); err != nil { //nolint:gosec // source
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile("lua/index.txt"); err != nil || string(got) != b.String() {
		t.Errorf("lua/index.txt is stale (%v); run: go generate ./queue/redisq", err)
	}
}
