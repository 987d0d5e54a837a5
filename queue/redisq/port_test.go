package redisq

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The scripts are the port of queue/machine: its files and functions have the same names here. The tables below list
// exceptions and their reasons. lua/index.txt lists the functions of the machine and their scripts.

// callOf maps calls to functions of the machine with other names.
var callOf = map[string]string{
	"audit": "readAudit", "document": "readDocument", "export": "exportJobs", "info": "get", "job": "findJob",
	"documentssince": "readDocuments", "samplessince": "readSamples", "list": "listJobs", "renew": "tick",
	"rules": "listRules", "ruleset": "rulesOf",
	"takeaudited": "auditTakes",
	"init":        "", // a machine is made in memory
}

// partOf maps scripts to files of the machine with other names. A script contains only the files that it needs, so one
// file there may be several here.
var partOf = map[string]string{
	"agenda": "agenda expiry job", "appendjob": "append appendrules overflow room", "auditwrite": "auditlog",
	"backlog": "overflow", "budget": "units", "cancel": "jobacts", "changelog": "changelog jobacts", "delete": "specs",
	"departures": "pace", "ended": "ended commit", "eta": "eta pause weights", "importjobs": "importjob",
	"readings": "info",
	"laneinfo": "info", "groupvisit": "groupvisit groups laneturns grant", "held": "jobacts", "job": "job room",
	"groups": "groups reserve weights", "lanes": "laneturns", "lanestate": "laneturns job lanelimits",
	"lanelimits": "lanelimits pace", "limitchange": "pace",
	"limits": "pace hours", "calendar": "pace", "hasdead": "dead",
	"list":       "joblist",
	"lostleases": "leases", "makeroom": "room", "membership": "groups", "memory": "room",
	"overflow":  "overflow readmit batches",
	"partition": "watch", "outcome": "settle groups",
	"purge": "jobacts", "queue": "queue overflow", "refile": "agenda", "replay": "dead",
	"revision": "clock", "rulekeys": "tallyset", "ruleusers": "rules", "shares": "grant",
	"stored": "job queue", "timeline": "job", "turnorder": "groups laneturns",
	"turns":  "laneturns grant receiver lanelimits",
	"unsent": "jobacts lane", "versions": "changelog", "visit": "grant agenda", "pacechange": "specs pace",
	"units":    "units learned",
	"withdraw": "overflow", "closeimport": "import", "create": "specs pace calendars", "decide": "jobacts dead",
	"importqueues": "import", "info": "info laneturns",
	"put": "specs laneturns", "readmit": "readmit room", "reserve": "reserve grant dead", "deadqueues": "dead",
	"settle": "settle receiver", "extend": "leases receiver", "calls/job": "jobinfo dead eta",
	"putrule": "rules", "recheck": "tallyset",
}

// ofRedis lists files without counterpart, for tasks that only scripts, or only Redis, have.
var ofRedis = map[string]string{
	"answers":   "Redis keeps answers for repeated calls; callers of the machine keep theirs",
	"kept":      "an option of the machine",
	"knownkeys": "the part of rulekeys that every take needs",
	"names":     "short names, and constants", "parts": "the tables of parts that are made late",
	"page": "where a page begins in a sorted set", "request": "the parts of the answer of a reserve",
	"run": "a machine is loaded anew after a restart", "sha256": "a digest, which Go has",
	"shown": "how versions and documents are packed", "slot": "whether a slot of a cluster is being moved",
}

// ownNames lists functions of scripts that the machine has under no such name, by reason.
var ownNames = map[string]string{
	"names and types of keys": `
		agendaKey askedOf auditKey checkChangeKeys checkDeadKeys checkExpiryKeys checkKeys checkKeysFor checkLaneKey
		checkSettle checkLaneKeys checkLogKeys checkAuditKeys checkNumbers checkRuleKeys
		finishedKey heldKey isField jobKey laneError logKey numberOf recordsKey ruleKey stopKey
		versionsKey waitingKey groupOf parentOf claimsKey`,
	"packing and unpacking": `
		adapted auditRow boundsOf bytesOf circuitOf costOf documentOf encodeAdapted endedRecord headOf keptLimits keptText
		setRamp
		deadRef deferralOf costsAt stateOf billOf
		batchAt batchIn labelPlace limitOfLane packLimits
		unpackLearned packLearned
		knownBy limitOf numberField numbersOf packLease rulesOf specOf textField textOf timeAt unpackEnded unpackLease
		packBatch unpackBatch withBatch unpackLimits unpackRule deadlineOf who`,
	"reading and writing state that the machine has in memory": `
		restoreLearned writeLearned
		add corrected keepBatches keepBucket keepKeys keepVersionAgain load loadLanes loadLimitsAndGroup loadLimits loadMember
		loadOverflow loadReceiver save saveBucket saveLimits saveLinks saveReceiver set writeAll writeDepartures
		writeMember writeTurns unsay count countLane costUnder begin finish readPause auditEnds
		writeSettled endAppend writeSpec writeCreated setTerms
		specFrom setHours behind changeSpec formerOf listCreated raise errorText rowsOf importOf
		nextNumber isNow recheckUntil noteOldest readOn following samplesOf`,
	"rows of an answer": `
		addGroups broken byPlace drainer firstAt full held inLane inRange indexBefore laneOf limitsOf matches page
		readyOf row show showDead showSome stopOf`,
	"methods in the machine, under names that need the type": `
		addAttempt advance allReadyAt atMostInFlight bounded bucketOf bucketReadyAt burstParts coverLane
		coverPaces delay delayPaces cover eachPace endAt endOf firstEndAfter giveBackPaces inFlight inFlightLimit isBusy
		isPaused isPausedForGood laneNext laneOpens laneSize lastStep nextDeparture rateOf ratio restsUntil ruleOf skip slots
		bucketOfCost mostIn addCost quantile
		span allows creditReadyAt chargeUnits noteLow lower lose changeBudget recount eachUnit
		windowNumber stepOf most grown same carriedStep turn
		takeAll takeAt window windowAt readyAt clearCircuit stopFor stopLane keep lasting less before insert pick unread
		accept refused taken observe usedUp nextOpen openSince laneHours correctLimits refundLimits`,
	"lanes, groups and leases, whose places in sorted sets are moved in steps of their own": `
		countInLane endInLane findPlace firstId firstJob hasLaneBy hasPlace letRest makeLaneReady memberIn
		needsNoPlace nextLane noteGivenBack open passed placeAgain placeMember putBack putBackChosen chooseAgain putOffUntil
		putOnAgendaSooner releaseIfFree reportWaiting restAsOnAgenda childNumbers countChildren step takePlaceAway
		uncountInLane visitedLane waitingElsewhere waitAgain lostSince grantMemberJob inLanes countLeased
		leaveTurns placePulled
		delayAfterRestart grantInTurn grantSome grantTurns closeTurns visitOne lanesOf free fileMember`,
	"many jobs at once, because each command costs": `
		batchFor countInBatch
		addFreed averageBytes chargeIfIn countDepartures countEnded countIfUnknown dropEndedJob dropVanished endJob
		endRemoved endUnsent endUnsentJob expireQueue findFirstExpiry forgetExpiries givePlacesBack locate newFreed
		writeTogether settleQueue lapses
		rememberDead trackDeadlines unschedule deferrable refuse refuseForLane remembered answerRepeated tryFor oldest tooOld
		restoredLease forgetDead doChores tooLate adaptToAnswers giveBackUnstarted heldByRate othersHeldByRate
		endAttemptUnknown onUnknown putHeld billToCorrect logPauseEnd shownAround extendLast firstOf`,
	"estimates, which the machine computes in other steps": `
		aheadOf countWaiting groupEta longestInterval markBytes outflowEta paceEta quotaEta budgetEta etaWithin
		rankOfDeferred`,
	"rules and their keys, which the machine has in sharded tables": `
		askedAnew askers came charge countAgain crowdOf forgetKeys isFull isNew leave leftInHand lookAt
		member put recheck ruling spare thin unaskable went decided endsAt judge noRoom sameRules limitsToKeep
		beginAdapted fallShort pass`,
	"bytes, which the machine counts where it adds and removes jobs": `countDeadBytes`,
	"memory, which the machine gets from its caller":                 `memoryFull took`,
	"functions of package audit":                                     `budgetOf diffOf isWhole longest wholeUpTo`,
}

// machineFunctions returns the functions of queue/machine by file, with their first letters in lower case.
func machineFunctions(t *testing.T) map[string][]string {
	t.Helper()
	files, err := filepath.Glob("../machine/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	functions := map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		name = strings.TrimSuffix(filepath.Base(name), ".go")
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				functions[name] = append(functions[name], strings.ToLower(f.Name.Name[:1])+f.Name.Name[1:])
			}
		}
	}
	return functions
}

var luaFunction = regexp.MustCompile(`(?m)^(?:local )?function (?:[a-z]+\.)?(\w+)`)

func TestScriptsAreThePortOfTheMachine(t *testing.T) {
	t.Parallel()
	functions := machineFunctions(t)
	var methods []string
	for _, names := range functions {
		methods = append(methods, names...)
	}
	own := map[string]bool{} // and whether a script has it
	for _, names := range ownNames {
		for _, name := range strings.Fields(names) {
			own[name] = false
		}
	}
	paths, err := fs.Glob(luaFiles, "lua/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		kind, name := path.Base(path.Dir(p)), strings.TrimSuffix(path.Base(p), ".lua")
		parts := []string{name}
		also, ok := partOf[kind+"/"+name]
		if !ok {
			also = partOf[name]
		}
		if also != "" {
			parts = strings.Fields(also)
		}
		_, isFile := functions[name]
		switch of, listed := callOf[name]; {
		case kind == "algorithms": // the port of leaky
			continue
		case kind == "calls" && !listed:
			of = name
			fallthrough
		case kind == "calls" && of != "":
			if !slices.ContainsFunc(methods, func(m string) bool { return strings.EqualFold(m, of) }) {
				t.Errorf("%s is no method of Machine, and callOf does not say which it is", p)
			}
		case kind == "lib" && !isFile && partOf[name] == "" && ofRedis[name] == "":
			t.Errorf("%s has no file of that name in queue/machine, and no row here says why", p)
		case kind == "lib" && isFile && ofRedis[name] != "":
			t.Errorf("%s has a file in queue/machine, and is said to have none", p)
		}
		for _, part := range strings.Fields(also) {
			if functions[part] == nil {
				t.Errorf("%s is said to be part of %s.go, which there is not in queue/machine", p, part)
			}
		}
		text, err := fs.ReadFile(luaFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range luaFunction.FindAllStringSubmatch(string(text), -1) {
			function := m[1]
			if slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(functions[part], function) }) {
				continue
			}
			if _, listed := own[function]; !listed && ofRedis[name] == "" {
				t.Errorf("%s: %s is no function of %s in queue/machine, and not among ownNames", p, function,
					strings.Join(parts, ".go, ")+".go")
			}
			own[function] = true
		}
	}
	for name, there := range own {
		if !there {
			t.Errorf("ownNames has %s, which no script has, or which the machine has too by now", name)
		}
	}
}

// The functions of a file stand in the machine's order, but behind those that they call.
func TestFunctionsStandInTheMachinesOrder(t *testing.T) {
	t.Parallel()
	machine := machineFunctions(t)
	paths, err := fs.Glob(luaFiles, "lua/*/*.lua")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		there := machine[strings.TrimSuffix(path.Base(p), ".lua")]
		text, err := fs.ReadFile(luaFiles, p)
		if err != nil {
			t.Fatal(err)
		}
		var names, bodies []string
		at := luaFunction.FindAllStringSubmatchIndex(string(text), -1)
		for i, m := range at {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			names, bodies = append(names, string(text[m[2]:m[3]])), append(bodies, stripLua(string(text[m[1]:end])))
		}
		place := func(i int) int { return slices.Index(there, names[i]) }
		var want []int
		var add func(i int)
		add = func(i int) {
			if slices.Contains(want, i) {
				return
			}
			var calls []int
			for k := range names { // a local function is called by those behind it
				uses := regexp.MustCompile(`[^.:\w]` + names[k] + `\b\s*[(,)]`) // it calls it, or hands it on
				switch {
				case k == i || !uses.MatchString(bodies[i]):
				case k > i:
					t.Errorf("%s: %s needs %s, which stands behind it", p, names[i], names[k])
				default:
					calls = append(calls, k)
				}
			}
			slices.SortStableFunc(calls, func(a, b int) int { return place(a) - place(b) })
			for _, k := range calls {
				add(k)
			}
			want = append(want, i)
		}
		var shared []int
		for i := range names {
			if place(i) >= 0 {
				shared = append(shared, i)
			}
		}
		for _, i := range slices.SortedStableFunc(slices.Values(shared), func(a, b int) int { return place(a) - place(b) }) {
			add(i)
		}
		want = slices.DeleteFunc(want, func(i int) bool { return place(i) < 0 })
		if !slices.Equal(want, shared) {
			var order []string
			for _, i := range want {
				order = append(order, names[i])
			}
			t.Errorf("%s: by queue/machine the order is %s", p, strings.Join(order, ", "))
		}
	}
}
