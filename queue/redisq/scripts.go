package redisq

import (
	_ "embed"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// One operation a file; each begins with its arguments and its answer. In front
// of it go the shared parts that it needs: lib.lua, which describes the keys, and
// what else is named below. Redis makes the functions of a script anew at every
// call, so those that an operation has no use for are left out.
var (
	//go:embed lib.lua
	libSource string
	//go:embed pace.lua
	paceSource string
	//go:embed change.lua
	changeSource string
	//go:embed flight.lua
	flightSource string
	//go:embed lanes.lua
	lanesSource string
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

	//go:embed append.lua
	appendSource string
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
	//go:embed init.lua
	initSource string
)

var (
	appendScript     = assemble(appendSource, paceSource, changeSource, flightSource, lanesSource, etaSource, agendaSource, overflowSource)
	reserveScript    = assemble(reserveSource, paceSource, changeSource, flightSource, lanesSource, agendaSource, turnsSource, endedSource, overflowSource, roomSource)
	settleScript     = assemble(settleSource, paceSource, changeSource, flightSource, lanesSource, agendaSource, endedSource, overflowSource, roomSource)
	extendScript     = assemble(extendSource, flightSource)
	putScript        = assemble(putSource, paceSource, changeSource, flightSource, lanesSource, agendaSource, overflowSource, roomSource)
	pauseScript      = assemble(pauseSource, paceSource, changeSource, flightSource, lanesSource, agendaSource)
	deleteScript     = assemble(deleteSource, paceSource)
	sweepScript      = assemble(sweepSource)
	infoScript       = assemble(infoSource, paceSource, changeSource, flightSource, lanesSource, etaSource, endedSource)
	jobScript        = assemble(jobSource, paceSource, changeSource, flightSource, lanesSource, etaSource, endedSource, overflowSource)
	totalsScript     = assemble(totalsSource)
	withdrawScript   = assemble(withdrawSource, paceSource, overflowSource, roomSource)
	readmitScript    = assemble(readmitSource, paceSource, changeSource, flightSource, lanesSource, agendaSource, endedSource, overflowSource, roomSource)
	backloggedScript = assemble(backloggedSource)
	cancelScript     = assemble(cancelSource, paceSource, changeSource, flightSource, lanesSource, agendaSource, endedSource, overflowSource, roomSource)
	initScript       = assemble(initSource)
)

// assemble puts shared parts behind an operation's first line, the shebang with
// its flags.
func assemble(op string, parts ...string) *redis.Script {
	shebang, body, _ := strings.Cut(op, "\n")
	return redis.NewScript(strings.Join(slices.Concat([]string{shebang, libSource}, parts, []string{body}), "\n"))
}
