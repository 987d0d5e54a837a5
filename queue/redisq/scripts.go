package redisq

import (
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

// One operation a file; each begins with its arguments and its answer. They
// share lib.lua, which describes the keys.
var (
	//go:embed lib.lua
	libSource string

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
	//go:embed init.lua
	initSource string
)

var (
	appendScript  = assemble(appendSource)
	reserveScript = assemble(reserveSource)
	settleScript  = assemble(settleSource)
	extendScript  = assemble(extendSource)
	putScript     = assemble(putSource)
	pauseScript   = assemble(pauseSource)
	deleteScript  = assemble(deleteSource)
	sweepScript   = assemble(sweepSource)
	infoScript    = assemble(infoSource)
	jobScript     = assemble(jobSource)
	totalsScript  = assemble(totalsSource)
	initScript    = assemble(initSource)
)

// assemble puts the shared parts behind an operation's first line, the shebang
// with its flags.
func assemble(op string) *redis.Script {
	shebang, body, _ := strings.Cut(op, "\n")
	return redis.NewScript(shebang + "\n" + libSource + "\n" + body)
}
