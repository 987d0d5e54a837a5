package redisq

import (
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

// kinds are the arithmetics of tallies: a letter, a file of lua/algorithms, and the numbers that the file needs of a
// limiter, nil if the limiter is of another kind.
var kinds = []struct {
	letter, file string
	numbers      func(l leaky.Limiter) []int64
}{
	{"m", "meter", func(l leaky.Limiter) []int64 {
		switch l := l.(type) {
		case leaky.Meter:
			return meterNumbers(l)
		case interface{ Meter() leaky.Meter }:
			return meterNumbers(l.Meter())
		}
		return nil
	}},
	{"b", "budget", func(l leaky.Limiter) []int64 {
		if l, ok := l.(leaky.Allowance); ok {
			return meterNumbers(leaky.Meter(l))
		}
		return nil
	}},
	{"f", "fixedwindow", func(l leaky.Limiter) []int64 {
		if l, ok := l.(leaky.FixedWindow); ok {
			return []int64{l.Max, l.Period.Microseconds()}
		}
		return nil
	}},
	{"c", "slidingcounter", func(l leaky.Limiter) []int64 {
		if l, ok := l.(leaky.SlidingCounter); ok {
			return []int64{l.Max, l.Period.Microseconds()}
		}
		return nil
	}},
	{"l", "slidinglog", func(l leaky.Limiter) []int64 {
		if l, ok := l.(leaky.SlidingLog); ok {
			return []int64{l.Max, l.Period.Microseconds(), max(1, l.Resolution.Microseconds())}
		}
		return nil
	}},
	{"p", "concurrency", func(l leaky.Limiter) []int64 {
		if l, ok := l.(leaky.Concurrency); ok {
			return []int64{l.Max, l.TTL.Microseconds()}
		}
		return nil
	}},
}

func meterNumbers(m leaky.Meter) []int64 {
	n, d := m.Rate.Fraction()
	return []int64{m.Burst, n, d}
}

// kind makes a table of the functions of an arithmetic. If its tally is a text it has only the first two.
const kind = "{ ask = ask, back = back, read = read, rest = rest, take = take, anew = anew, write = write }"

// ofTables declares the functions that an arithmetic has if its tallies are not texts, or its takes can be corrected.
const ofTables = "local read, rest, take, anew, write, looked, noteOpenTake, correctTake\n"

// allKinds returns the Lua that makes each arithmetic when it is first looked up, in a scope of its own.
func allKinds() string {
	var b strings.Builder
	fmt.Fprintf(&b, "local makers, byLetter, CORRECT_FOR = {}, {}, %d\n", rules.CorrectFor.Microseconds())
	for _, k := range kinds {
		fmt.Fprintf(&b, "makers.%s = function()\n%s  %s\nreturn %s\nend\n", k.letter, ofTables,
			strings.ReplaceAll(readLua("algorithms/"+k.file).text, "\n", "\n  "), kind)
	}
	b.WriteString(`setmetatable(byLetter, { __index = function(_, letter)
local made = makers[letter]()
rawset(byLetter, letter, made)
return made
end })
`)
	return b.String()
}

// ruleKeys returns lua/lib/rulekeys.lua, made when withRulekeys is first called.
func ruleKeys() luaFile {
	f := readLua("lib/rulekeys")
	return luaFile{needs: f.needs, text: fmt.Sprintf(
		"local rulekeys\nlocal function withRulekeys()\nif not rulekeys then\n%s\n%s\n%s\n%s\nend\nreturn rulekeys\nend\n",
		library("names").text, readLua("lib/recheck").text, f.text, gifts("rulekeys", f.gives))}
}

// takeScripts are take.lua for one arithmetic each. They are called so often, and do so little, that any further work
// would be most of their cost.
var takeScripts = scriptPairs(assembleTake)

// auditedTakes are take.lua for one arithmetic each. They also write an audit entry of what is given back or forgotten.
// They are seldom called.
var auditedTakes = scriptPairs(assembleAuditedTake)

// scriptPairs returns two scripts for each arithmetic. The second is for calls that take nothing, which a Redis that is
// out of memory allows.
func scriptPairs(assemble func(shebang, letter, algorithm string) string) map[byte][2]script {
	scripts := map[byte][2]script{}
	for _, k := range kinds {
		var pair [2]script
		for i, shebang := range []string{"#!lua", "#!lua flags=allow-oom"} {
			pair[i] = sync.OnceValue(func() *redis.Script { return redis.NewScript(assemble(shebang, k.letter, k.file)) })
		}
		scripts[k.letter[0]] = pair
	}
	return scripts
}

func assembleAuditedTake(shebang, letter, algorithm string) string {
	audit := readLua("calls/takeaudited")
	var b strings.Builder
	fmt.Fprintln(&b, beforeTake(shebang, letter, algorithm))
	for _, name := range closure(audit.needs, []string{"names", "clock"}) {
		fmt.Fprintln(&b, library(name).text)
	}
	fmt.Fprintf(&b, "local function answers()\n%s\nend\n%s", readLua("calls/take").text, audit.text)
	return withConstants(b.String())
}

func assembleTake(shebang, letter, algorithm string) string {
	return withConstants(beforeTake(shebang, letter, algorithm) + "\n" + readLua("calls/take").text)
}

// beforeTake returns the Lua that comes before take.lua.
func beforeTake(shebang, letter, algorithm string) string {
	before := ""
	if strings.Contains("lpb", letter) { // the others read two keys at once, which has the same effect
		before = library("slot").text + "\ncheckSlot()"
	}
	withBudget := ""
	if letter == "b" {
		withBudget = library("budget").text
	}
	return strings.Join([]string{
		shebang, library("names").text, before, library("clock").text, library("clockrecord").text,
		library("tally").text, withBudget,
		library("knownkeys").text, library("rulekeys").text, library("takeops").text, ofTables,
		readLua("algorithms/" + algorithm).text,
	}, "\n")
}
