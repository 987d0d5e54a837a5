package redisq

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// The Lua of this package. Each file of lua/calls is an operation, and begins with its arguments and its answer.
// Operations share the files of lua/lib, and lua/algorithms has a limiter a file.
//
// The header of a file has its dependencies. It follows the first line of an operation, the shebang with its flags:
//
//	-- needs: pace, memory       files of lua/lib that it uses; they come before it
//	-- for lanes: appendjob      files of the part that is made when a call meets a queue with lanes
//	-- gives: ruleOf, enter      functions that other parts call as <file>.<function>
//	-- reads: delivered          counters that the operation reads with its queues
//
//go:embed lua/*/*.lua
var luaFiles embed.FS

// base are the files before everything else of an operation, names first.
var base = []string{"names", "slot", "clock", "fields", "partition", "queue", "job"}

type lazyPart struct{ name, make, file, first string }

// lazyParts are parts of a script that a call makes when it first needs them, see lua/lib/parts.lua. Calling the
// function make makes the part, and then calls first.
var lazyParts = []lazyPart{
	{"lanes", "withLanes", "lanes", "loadLanes"},
	{"limits", "withLimits", "groups", "loadLimitsAndGroup"},
	{"receiver", "withReceiver", "receiver", "loadReceiver"},
	{"expiry", "expireDue", "expiry", "expire"},
	{"rules", "withRules", "appendrules", "ruling"},
	{"visits", "visitOne", "visit", "visitOne"},
	{"backlog", "announceRoom", "backlog", "announceRoom"},
	{"makeroom", "makeRoom", "makeroom", "makeRoom"},
	{"outcome", "settleOne", "outcome", "settle"},
	{"adapt", "adaptRate", "adapt", "adaptToAnswers"},
	{"changelog", "logLapse", "changelog", "logPauseEnd"},
	{"auditwrite", "writeAudit", "auditwrite", "writeAudit"},
	{"refile", "refileSome", "refile", "fileAgain"},
	{"batches", "withBatches", "batches", "loadBatches"},
}

// partsOf returns the files of each part of an operation: those that the operation names, and those that its other
// files name.
func partsOf(op luaFile) map[string][]string {
	parts, seen := map[string][]string{}, map[string]bool{}
	var add func(f luaFile)
	need := func(file string) {
		if !seen[file] {
			seen[file] = true
			add(library(file))
		}
	}
	add = func(f luaFile) {
		for _, file := range f.needs {
			need(file)
		}
		for part, files := range f.parts {
			for _, file := range files {
				if !slices.Contains(parts[part], file) {
					parts[part] = append(parts[part], file)
				}
				need(file)
			}
		}
	}
	add(op)
	return parts
}

// script returns an operation. It is assembled when it is first called: few processes need all of them.
type script func() *redis.Script

func newScript(call string) script {
	return sync.OnceValue(func() *redis.Script { return redis.NewScript(assemble(call)) })
}

// luaFile is a file and the contents of its header.
type luaFile struct {
	shebang, text string
	needs, gives  []string
	reads         []string
	parts         map[string][]string
}

// readLua reads a file of lua/; its name is without .lua.
func readLua(name string) luaFile {
	data, err := luaFiles.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // a header names a file that is not there; TestScriptsAreWhole assembles them all
	}
	f := luaFile{text: string(data), parts: map[string][]string{}}
	for line := range strings.Lines(f.text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#!") {
			f.shebang, f.text = line, strings.TrimPrefix(f.text, line)
			continue
		}
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "-- "), ": ")
		part, ofPart := strings.CutPrefix(key, "for ")
		switch names := strings.Split(value, ", "); {
		case key == "needs":
			f.needs = append(f.needs, names...)
		case key == "gives":
			f.gives = append(f.gives, names...)
		case key == "reads":
			f.reads = append(f.reads, names...)
		case ofPart:
			f.parts[part] = names
		default:
			return f
		}
	}
	return f
}

// library reads a file of lua/lib, or returns one that is written in Go.
func library(name string) luaFile {
	switch name {
	case "algorithms": // all of lua/algorithms
		return luaFile{needs: []string{"budget"}, text: allKinds()}
	case "rulekeys":
		return ruleKeys()
	}
	if text, ok := tables[name]; ok {
		return luaFile{text: text}
	}
	return readLua("lib/" + name)
}

// closure returns the named files of lua/lib and the files that they need, except for those in there. Each file comes
// after the files that it needs.
func closure(names, there []string) (files []string) {
	for _, name := range names {
		if slices.Contains(there, name) {
			continue
		}
		add := append(closure(library(name).needs, there), name)
		files, there = append(files, add...), slices.Concat(there, add)
	}
	return files
}

// assemble returns the text of an operation.
func assemble(call string) string {
	op := readLua("calls/" + call)
	needed, parts := closure(op.needs, base), partsOf(op)
	var b strings.Builder
	fmt.Fprintln(&b, op.shebang)
	write := func(names []string) {
		for _, name := range names {
			text := library(name).text
			if name == "fields" {
				text = readsPartition() + readsQueue(op.reads...)
			}
			fmt.Fprintln(&b, text)
		}
	}
	// Names, base and the rest are nested functions, which makes it cheaper to create a function. Redis searches for
	// each local that it uses among all captured locals of the enclosing function, but finds outer ones at once.
	write(base[:1])
	fmt.Fprintln(&b, "return (function()")
	write(base[1:])
	fmt.Fprintln(&b, "return (function()")
	write([]string{"parts"})
	write(needed)
	for _, part := range lazyParts {
		if parts[part.name] == nil {
			continue
		}
		files := closure(parts[part.name], slices.Concat(base, needed))
		fmt.Fprintf(&b, "%s = function(...)\nif not %s then\n%s\n", part.make, part.file, library("names").text)
		write(files)
		for _, name := range files {
			fmt.Fprintf(&b, "%s\n", gifts(name, library(name).gives))
		}
		fmt.Fprintf(&b, "end\nreturn %s.%s(...)\nend\n", part.file, part.first)
	}
	fmt.Fprintln(&b, op.text)
	fmt.Fprintln(&b, "end)()\nend)()")
	return withStoredNames(withConstants(withNumbers(b.String())))
}

// gifts returns Lua that puts the functions that a file gives into its table.
func gifts(name string, given []string) string {
	if len(given) == 0 {
		return ""
	}
	fields := make([]string, len(given))
	for i, function := range given {
		fields[i] = function + " = " + function
	}
	return fmt.Sprintf("%s = { %s }", name, strings.Join(fields, ", "))
}

var (
	appendScript       = newScript("append")
	reserveScript      = newScript("reserve")
	settleScript       = newScript("settle")
	extendScript       = newScript("extend")
	putScript          = newScript("put")
	renewScript        = newScript("renew")
	pauseScript        = newScript("pause")
	throttleScript     = newScript("throttle")
	lineupScript       = newScript("lineup")
	changesScript      = newScript("changes")
	historyScript      = newScript("history")
	auditScript        = newScript("audit")
	recordScript       = newScript("record")
	deleteScript       = newScript("delete")
	sweepScript        = newScript("sweep")
	infoScript         = newScript("info")
	readingsScript     = newScript("readings")
	specsScript        = newScript("specs")
	jobScript          = newScript("job")
	totalsScript       = newScript("totals")
	withdrawScript     = newScript("withdraw")
	readmitScript      = newScript("readmit")
	announceScript     = newScript("announce")
	backloggedScript   = newScript("backlogged")
	cancelScript       = newScript("cancel")
	listScript         = newScript("list")
	purgeScript        = newScript("purge")
	replayScript       = newScript("replay")
	forgetScript       = newScript("forget")
	decideScript       = newScript("decide")
	exportScript       = newScript("export")
	openImportScript   = newScript("openimport")
	importJobsScript   = newScript("importjobs")
	closeImportScript  = newScript("closeimport")
	documentScript     = newScript("document")
	putDocumentScript  = newScript("putdocument")
	deadQueuesScript   = newScript("deadqueues")
	initScript         = newScript("init")
	putRuleScript      = newScript("putrule")
	rulesScript        = newScript("rules")
	deleteRuleScript   = newScript("deleterule")
	resetRuleScript    = newScript("resetrule")
	rulesetScript      = newScript("ruleset")
	attendScript       = newScript("attend")
	importQueuesScript = newScript("importqueues")
	findJobsScript     = newScript("findjobs")
	batchesScript      = newScript("batches")

	documentsSinceScript = newScript("documentssince")
	putSampleScript      = newScript("putsample")
	samplesSinceScript   = newScript("samplessince")
)
