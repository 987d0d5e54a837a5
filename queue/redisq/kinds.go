package redisq

import (
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// kinds are the arithmetics of tallies, by the letters that stand for them.
var kinds = []struct{ letter, source string }{
	{"m", meterSource}, {"f", fixedWindowSource}, {"c", slidingCounterSource}, {"l", slidingLogSource}, {"p", concurrencySource},
}

// kind is the functions of an arithmetic, in a table. Those whose tally is a text have the first two.
const kind = "{ ask = ask, back = back, read = read, take = take, anew = anew, write = write }"

// ofTables are what an arithmetic has for tallies that are no texts.
const ofTables = "local read, take, anew, write, looked\n"

// allKinds is what makes each arithmetic when it is looked for first; made must not take its functions for its own.
func allKinds() string {
	var b strings.Builder
	b.WriteString("local makers, by_letter = {}, {}\n")
	for _, k := range kinds {
		fmt.Fprintf(&b, "makers.%s = function()\n%s  %s\nreturn %s\nend\n", k.letter, ofTables, strings.ReplaceAll(k.source, "\n", "\n  "), kind)
	}
	b.WriteString("setmetatable(by_letter, { __index = function(_, letter)\nlocal made = makers[letter]()\nrawset(by_letter, letter, made)\nreturn made\nend })\n")
	return b.String()
}

// takeScripts are take.lua for one arithmetic each. It is called so often, and does so little, that all else would be most of it. The other of each pair is
// for a Redis that is out of memory, of what takes nothing.
var takeScripts = func() map[byte][2]*redis.Script {
	scripts := map[byte][2]*redis.Script{}
	_, body, _ := strings.Cut(takeSource, "\n")
	for _, k := range kinds {
		before := ""
		if k.letter == "l" || k.letter == "p" { // the others read two keys at once, which says as much
			before = wholeSource + "\nwhole()"
		}
		var pair [2]*redis.Script
		for i, shebang := range []string{"#!lua", "#!lua flags=allow-oom"} {
			pair[i] = redis.NewScript(strings.Join([]string{shebang, namesSource, before, clockSource, tallySource, ofTables, k.source, body}, "\n"))
		}
		scripts[k.letter[0]] = pair
	}
	return scripts
}()
