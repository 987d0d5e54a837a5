package redisq

import (
	_ "embed"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// One operation a file; each begins with its arguments and its answer. In front
// of it go the shared parts that it needs: lib.lua, which describes the keys, and
// what else is named below. Redis makes the functions of a script anew at every
// call, so those that an operation has no use for are left out, and those that few
// calls of it need come later.
var (
	//go:embed lib.lua
	libSource string
	//go:embed pace.lua
	paceSource string
	//go:embed change.lua
	changeSource string
	//go:embed flight.lua
	flightSource string
	//go:embed timeline.lua
	timelineSource string
	//go:embed lanes.lua
	lanesSource string
	//go:embed places.lua
	placesSource string
	//go:embed eta.lua
	etaSource string
	//go:embed agenda.lua
	agendaSource string
	//go:embed turns.lua
	turnsSource string
	//go:embed ended.lua
	endedSource string
	//go:embed overflow.lua
	overflowSource string
	//go:embed room.lua
	roomSource string
	//go:embed once.lua
	onceSource string
	//go:embed page.lua
	pageSource string

	//go:embed admit.lua
	admitSource string

	//go:embed append.lua
	appendSource string
	//go:embed takeback.lua
	takebackSource string
	//go:embed reserve.lua
	reserveSource string
	//go:embed settle.lua
	settleSource string
	//go:embed extend.lua
	extendSource string
	//go:embed put.lua
	putSource string
	//go:embed pause.lua
	pauseSource string
	//go:embed delete.lua
	deleteSource string
	//go:embed sweep.lua
	sweepSource string
	//go:embed info.lua
	infoSource string
	//go:embed job.lua
	jobSource string
	//go:embed totals.lua
	totalsSource string
	//go:embed withdraw.lua
	withdrawSource string
	//go:embed readmit.lua
	readmitSource string
	//go:embed backlogged.lua
	backloggedSource string
	//go:embed cancel.lua
	cancelSource string
	//go:embed list.lua
	listSource string
	//go:embed purge.lua
	purgeSource string
	//go:embed replay.lua
	replaySource string
	//go:embed forget.lua
	forgetSource string
	//go:embed importing.lua
	importingSource string
	//go:embed export.lua
	exportSource string
	//go:embed openimport.lua
	openImportSource string
	//go:embed importjobs.lua
	importJobsSource string
	//go:embed closeimport.lua
	closeImportSource string
	//go:embed init.lua
	initSource string
)

var (
	appendScript      = assemble(appendSource, parts(paceSource), flightSource, changeSource, lanesSource, agendaSource, placesSource, overflowSource, etaSource, admitSource)
	reserveScript     = assemble(reserveSource, parts(paceSource, flightSource, timelineSource, agendaSource, endedSource, overflowSource, roomSource, takebackSource), changeSource, lanesSource, placesSource, turnsSource)
	settleScript      = assemble(settleSource, parts(paceSource, flightSource, timelineSource, agendaSource, endedSource, overflowSource, roomSource), changeSource, lanesSource, placesSource)
	extendScript      = assemble(extendSource, parts(flightSource))
	putScript         = assemble(putSource, parts(paceSource, changeSource, agendaSource, overflowSource, roomSource), flightSource, lanesSource, placesSource)
	pauseScript       = assemble(pauseSource, parts(paceSource, agendaSource), changeSource, flightSource, lanesSource, placesSource)
	deleteScript      = assemble(deleteSource, parts(paceSource))
	sweepScript       = assemble(sweepSource, nil)
	infoScript        = assemble(infoSource, parts(paceSource, flightSource, endedSource, pageSource), changeSource, lanesSource, etaSource)
	jobScript         = assemble(jobSource, parts(paceSource, flightSource, endedSource, overflowSource), changeSource, lanesSource, etaSource)
	totalsScript      = assemble(totalsSource, nil)
	withdrawScript    = assemble(withdrawSource, parts(paceSource, overflowSource, roomSource))
	readmitScript     = assemble(readmitSource, parts(paceSource, flightSource, agendaSource, endedSource, overflowSource, roomSource), changeSource, lanesSource, placesSource)
	backloggedScript  = assemble(backloggedSource, nil)
	cancelScript      = assemble(cancelSource, parts(paceSource, flightSource, agendaSource, endedSource, overflowSource, roomSource), changeSource, lanesSource, placesSource)
	listScript        = assemble(listSource, parts(flightSource, endedSource, pageSource), paceSource, changeSource, lanesSource)
	purgeScript       = assemble(purgeSource, parts(paceSource, flightSource, agendaSource, endedSource, overflowSource, roomSource, onceSource, pageSource), changeSource, lanesSource, placesSource)
	replayScript      = assemble(replaySource, parts(paceSource, flightSource, agendaSource, endedSource, overflowSource, onceSource), changeSource, lanesSource, placesSource)
	forgetScript      = assemble(forgetSource, parts(onceSource))
	exportScript      = assemble(exportSource, parts(flightSource, timelineSource, endedSource, pageSource), paceSource, changeSource, lanesSource)
	openImportScript  = assemble(openImportSource, parts(paceSource, agendaSource, importingSource), changeSource, flightSource, lanesSource, placesSource)
	importJobsScript  = assemble(importJobsSource, parts(paceSource, flightSource, agendaSource, endedSource, overflowSource, importingSource), changeSource, lanesSource, placesSource)
	closeImportScript = assemble(closeImportSource, parts(paceSource, agendaSource, importingSource), changeSource, flightSource, lanesSource, placesSource)
	initScript        = assemble(initSource, nil)
)

func parts(sources ...string) []string { return sources }

// assemble puts shared parts behind an operation's first line, the shebang with
// its flags. What only queues with lanes need is made when the script calls more(), as
// load() does for such a queue, and found in laned: making it costs as much as a small
// append, and so does each local of the script that a function uses.
func assemble(op string, always []string, ofLanes ...string) *redis.Script {
	shebang, body, _ := strings.Cut(op, "\n")
	sources := append([]string{shebang, libSource}, always...)
	if len(ofLanes) > 0 {
		made := "more = function(q)\nif not laned.lanes then\n" + strings.Join(ofLanes, "\n")
		for _, name := range function.FindAllStringSubmatch(made, -1) {
			made += "\nlaned." + name[1] + " = " + name[1]
		}
		sources = append(sources, made+"\nend\nlaned.lanes(q)\nend")
	}
	return redis.NewScript(strings.Join(append(sources, body), "\n"))
}

var function = regexp.MustCompile(`(?m)^local function (\w+)`)
