package redisq

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// One operation a file; each begins with its arguments and its answer. In front
// of it go the shared parts that it needs: partition.lua, which describes the keys, and
// what else is named below. Redis makes the functions of a script anew at every
// call, so those that an operation has no use for are left out, and those that few
// calls of it need come later.
var (
	//go:embed lua/lib/states.lua
	statesSource string
	//go:embed lua/lib/slot.lua
	wholeSource string
	//go:embed lua/lib/clock.lua
	clockSource string
	//go:embed lua/lib/partition.lua
	libSource string
	//go:embed lua/lib/names.lua
	namesSource string
	//go:embed lua/lib/pace.lua
	paceSource string
	//go:embed lua/lib/limits.lua
	limitsSource string
	//go:embed lua/lib/receiver.lua
	stopsSource string
	//go:embed lua/lib/limitchange.lua
	relimitSource string
	//go:embed lua/lib/groups.lua
	groupSource string
	//go:embed lua/lib/membership.lua
	kinSource string
	//go:embed lua/lib/adapt.lua
	adaptSource string
	//go:embed lua/lib/ratechange.lua
	changeSource string
	//go:embed lua/lib/leases.lua
	flightSource string
	//go:embed lua/lib/timeline.lua
	timelineSource string
	//go:embed lua/lib/lanes.lua
	lanesSource string
	//go:embed lua/lib/lanestate.lua
	placesSource string
	//go:embed lua/lib/eta.lua
	etaSource string
	//go:embed lua/lib/agenda.lua
	agendaSource string
	//go:embed lua/lib/turns.lua
	turnsSource string
	//go:embed lua/lib/dead.lua
	deadSource string
	//go:embed lua/lib/memory.lua
	memorySource string
	//go:embed lua/lib/ended.lua
	endedSource string
	//go:embed lua/lib/unsent.lua
	leaveSource string
	//go:embed lua/lib/expiry.lua
	expireSource string
	//go:embed lua/lib/overflow.lua
	overflowSource string
	//go:embed lua/lib/backlog.lua
	roomSource string
	//go:embed lua/lib/changes.lua
	recordSource string
	//go:embed lua/calls/changes.lua
	changesSource string
	//go:embed lua/calls/history.lua
	historySource string
	//go:embed lua/lib/answers.lua
	onceSource string
	//go:embed lua/lib/page.lua
	pageSource string

	//go:embed lua/lib/appendjob.lua
	admitSource string

	//go:embed lua/calls/append.lua
	appendSource string
	//go:embed lua/lib/lostleases.lua
	takebackSource string
	//go:embed lua/lib/request.lua
	askedSource string
	//go:embed lua/lib/shares.lua
	sharesSource string
	//go:embed lua/lib/grant.lua
	grantSource string
	//go:embed lua/lib/visit.lua
	visitSource string
	//go:embed lua/lib/groupvisit.lua
	groupvisitSource string
	//go:embed lua/lib/turnorder.lua
	orderSource string
	//go:embed lua/calls/renew.lua
	renewSource string
	//go:embed lua/calls/reserve.lua
	reserveSource string
	//go:embed lua/calls/settle.lua
	settleSource string
	//go:embed lua/calls/extend.lua
	extendSource string
	//go:embed lua/calls/put.lua
	putSource string
	//go:embed lua/calls/pause.lua
	pauseSource string
	//go:embed lua/calls/delete.lua
	deleteSource string
	//go:embed lua/calls/sweep.lua
	sweepSource string
	//go:embed lua/calls/info.lua
	infoSource string
	//go:embed lua/calls/job.lua
	jobSource string
	//go:embed lua/calls/totals.lua
	totalsSource string
	//go:embed lua/calls/withdraw.lua
	withdrawSource string
	//go:embed lua/calls/readmit.lua
	readmitSource string
	//go:embed lua/calls/announce.lua
	announceSource string
	//go:embed lua/calls/backlogged.lua
	backloggedSource string
	//go:embed lua/calls/cancel.lua
	cancelSource string
	//go:embed lua/calls/list.lua
	listSource string
	//go:embed lua/calls/purge.lua
	purgeSource string
	//go:embed lua/calls/replay.lua
	replaySource string
	//go:embed lua/lib/held.lua
	heldSource string
	//go:embed lua/calls/decide.lua
	decideSource string
	//go:embed lua/calls/forget.lua
	forgetSource string
	//go:embed lua/lib/imports.lua
	importingSource string
	//go:embed lua/calls/export.lua
	exportSource string
	//go:embed lua/calls/openimport.lua
	openImportSource string
	//go:embed lua/calls/importjobs.lua
	importJobsSource string
	//go:embed lua/calls/closeimport.lua
	closeImportSource string
	//go:embed lua/calls/deadqueues.lua
	deadQueuesSource string
	//go:embed lua/calls/init.lua
	initSource string

	//go:embed lua/lib/ruleusers.lua
	ruleNamesSource string
	//go:embed lua/calls/putrule.lua
	putRuleSource string
	//go:embed lua/calls/rules.lua
	rulesSource string
	//go:embed lua/calls/deleterule.lua
	deleteRuleSource string
	//go:embed lua/calls/resetrule.lua
	resetRuleSource string
	//go:embed lua/calls/ruleset.lua
	rulesetSource string
	//go:embed lua/lib/tallies.lua
	tallySource string
	//go:embed lua/algorithms/meter.lua
	meterSource string
	//go:embed lua/algorithms/fixedwindow.lua
	fixedWindowSource string
	//go:embed lua/algorithms/slidingcounter.lua
	slidingCounterSource string
	//go:embed lua/algorithms/slidinglog.lua
	slidingLogSource string
	//go:embed lua/algorithms/concurrency.lua
	concurrencySource string
	//go:embed lua/lib/appendrules.lua
	asksSource string
	//go:embed lua/calls/take.lua
	takeSource string
	//go:embed lua/calls/attend.lua
	attendSource string
)

var (
	appendScript = assemble(appendSource, parts(paceSource, memorySource), parts(flightSource, changeSource, lanesSource, agendaSource, placesSource, overflowSource, etaSource, admitSource), beside(),
		expiry(flightSource, deadSource, endedSource, overflowSource, roomSource), made("more_rules", "rules", "ruling", parts(tallySource, allKinds(), asksSource)))
	reserveScript = assemble(reserveSource, parts(paceSource, flightSource, timelineSource, agendaSource, deadSource, endedSource, overflowSource, roomSource, recordSource, heldSource, takebackSource, askedSource, sharesSource),
		parts(changeSource, lanesSource, placesSource, orderSource, turnsSource), beside(groupvisitSource),
		expiry(), made("make_visits", "visits", "visit_one", parts(leaveSource, grantSource, visitSource)))
	settleScript = assemble(settleSource, parts(paceSource, flightSource, timelineSource, agendaSource, deadSource, endedSource, overflowSource, roomSource, heldSource), parts(changeSource, lanesSource, placesSource), beside(),
		made("hear", "adapts", "heard", parts(changeSource, adaptSource)))
	extendScript     = assemble(extendSource, parts(flightSource), nil, nil)
	putScript        = assemble(putSource, parts(paceSource, changeSource, adaptSource, agendaSource, overflowSource, roomSource, recordSource, ruleNamesSource), parts(flightSource, lanesSource, placesSource), beside(relimitSource, kinSource))
	renewScript      = assemble(renewSource, nil, nil, nil)
	pauseScript      = assemble(pauseSource, parts(paceSource, agendaSource, recordSource), parts(changeSource, flightSource, lanesSource, placesSource), beside())
	changesScript    = assemble(changesSource, parts(recordSource), nil, nil)
	historyScript    = assemble(historySource, parts(recordSource), nil, nil)
	deleteScript     = assemble(deleteSource, parts(paceSource, changeSource, agendaSource, recordSource), parts(flightSource, lanesSource, placesSource), beside(relimitSource, kinSource))
	sweepScript      = assemble(sweepSource, nil, nil, nil)
	infoScript       = assemble(infoSource, parts(counterTable, paceSource, flightSource, deadSource, endedSource, pageSource), parts(changeSource, lanesSource, placesSource, etaSource), beside())
	jobScript        = assemble(jobSource, parts(paceSource, flightSource, deadSource, endedSource, overflowSource), parts(changeSource, lanesSource, etaSource), beside())
	totalsScript     = assemble(totalsSource, nil, nil, nil)
	withdrawScript   = assemble(withdrawSource, parts(paceSource, overflowSource, roomSource), nil, beside())
	readmitScript    = assemble(readmitSource, parts(paceSource, memorySource, flightSource, agendaSource, deadSource, endedSource, overflowSource, roomSource), parts(changeSource, lanesSource, placesSource), beside(), expiry())
	announceScript   = assemble(announceSource, parts(paceSource, overflowSource, roomSource), nil, nil)
	backloggedScript = assemble(backloggedSource, nil, nil, nil)
	cancelScript     = assemble(cancelSource, parts(recordSource, paceSource, flightSource, agendaSource, deadSource, endedSource, overflowSource, roomSource, leaveSource), parts(changeSource, lanesSource, placesSource), beside())
	listScript       = assemble(listSource, parts(flightSource, deadSource, endedSource, pageSource), parts(paceSource, changeSource, lanesSource), nil)
	purgeScript      = assemble(purgeSource, parts(recordSource, paceSource, flightSource, agendaSource, deadSource, endedSource, overflowSource, roomSource, leaveSource, onceSource, pageSource),
		parts(changeSource, lanesSource, placesSource), beside())
	replayScript      = assemble(replaySource, parts(recordSource, paceSource, memorySource, flightSource, agendaSource, deadSource, endedSource, overflowSource, onceSource), parts(changeSource, lanesSource, placesSource), beside(), expiry(roomSource))
	forgetScript      = assemble(forgetSource, parts(recordSource, onceSource, deadSource), nil, nil)
	decideScript      = assemble(decideSource, parts(recordSource, paceSource, flightSource, timelineSource, agendaSource, deadSource, endedSource, overflowSource, roomSource, onceSource, heldSource), parts(changeSource, lanesSource, placesSource), beside())
	exportScript      = assemble(exportSource, parts(flightSource, timelineSource, heldSource, deadSource, endedSource, pageSource), parts(paceSource, changeSource, lanesSource), nil)
	openImportScript  = assemble(openImportSource, parts(paceSource, agendaSource, importingSource), parts(changeSource, flightSource, lanesSource, placesSource), beside())
	importJobsScript  = assemble(importJobsSource, parts(paceSource, memorySource, flightSource, agendaSource, deadSource, endedSource, overflowSource, importingSource), parts(changeSource, lanesSource, placesSource), beside())
	closeImportScript = assemble(closeImportSource, parts(counterTable, recordSource, paceSource, agendaSource, importingSource), parts(changeSource, flightSource, lanesSource, placesSource), beside())
	initScript        = assemble(initSource, nil, nil, nil)
	putRuleScript     = assemble(putRuleSource, parts(recordSource, ruleNamesSource), nil, nil)
	rulesScript       = assemble(rulesSource, parts(ruleNamesSource), nil, nil)
	deleteRuleScript  = assemble(deleteRuleSource, parts(recordSource, ruleNamesSource), nil, nil)
	resetRuleScript   = assemble(resetRuleSource, parts(recordSource, ruleNamesSource), nil, nil)
	rulesetScript     = assemble(rulesetSource, parts(ruleNamesSource), nil, nil)
	attendScript      = assemble(attendSource, nil, nil, nil)
	deadQueuesScript  = assemble(deadQueuesSource, parts(deadSource), nil, nil)
)

func parts(sources ...string) []string { return sources }

// beside is what limits and groups need, and what else an operation does with them.
func beside(more ...string) []string { return append([]string{limitsSource, groupSource}, more...) }

// expiry is what ends jobs that have expired, behind those parts that the operation has not anyway.
func expiry(parts ...string) string {
	return made("expire_due", "late", "end_expired", append(parts, leaveSource, expireSource))
}

// assemble puts shared parts behind an operation's first line, the shebang with
// its flags. What only queues with lanes need is made when the script calls more(), as
// load() does for such a queue, and found in laned; what only those with limits or of a group do, with
// more_beside() and in beside; what only those do of whose receiver there is something to remember, with
// more_stops() and in stops; and what else is late: visits, of Reserve, when something is due, and what ends
// jobs when some have expired. Making it costs as much as a small append, and so does each local of the script that a
// function uses.
func assemble(op string, always, ofLanes, ofBeside []string, late ...string) *redis.Script {
	shebang, body, _ := strings.Cut(op, "\n")
	// What is behind partition.lua is a function of its own: to those made in it, all that stands before is at hand,
	// while each local of the same function that one uses is looked for among all that others use.
	sources := append([]string{shebang, namesSource, statesSource, wholeSource, clockSource, libSource, "return (function()"}, always...)
	sources = append(sources, made("more", "laned", "lanes", ofLanes), made("more_beside", "beside", "join", ofBeside))
	if ofBeside != nil { // it knows of paces
		sources = append(sources, made("more_stops", "stops", "heed", parts(stopsSource)))
	}
	sources = append(sources, late...)
	return redis.NewScript(strings.Join(append(sources, body, "end)()"), "\n"))
}

// made is a function that makes those of sources when it is called first, puts them into a table, and
// calls one of them.
func made(name, table, load string, sources []string) string {
	if len(sources) == 0 {
		return ""
	}
	text := strings.Join(sources, "\n")
	var b strings.Builder
	fmt.Fprintf(&b, "%s = function(...)\nif not %s.%s then\n%s\n%s", name, table, load, namesSource, text)
	// Every process that links this package does it as it starts: a regular expression would take most of that time.
	for line := range strings.Lines(text) {
		if function, ok := strings.CutPrefix(line, "local function "); ok {
			name, _, _ := strings.Cut(function, "(")
			fmt.Fprintf(&b, "\n%s.%s = %s", table, name, name)
		}
	}
	fmt.Fprintf(&b, "\nend\nreturn %s.%s(...)\nend", table, load)
	return b.String()
}
