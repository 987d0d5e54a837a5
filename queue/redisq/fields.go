package redisq

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

// storedNames maps the names of a queue's fields in Lua, as in queue/machine, to the short names under which Redis
// stores them. Redis keeps a hash compact only while it is small.
//
// A name in this table must stand for the field only: it is replaced wherever a script has it.
var storedNames = map[string]string{
	"links": "also", "ruleNames": "ruled", "receiverText": "said", // see queueTexts
	"keyedWaiting": "lw", "changedAgain": "again", "maxCostAtOpen": "hm", "lanesUnknownSince": "lheld", // lanes.lua
	"groupServed": "gserved", "groupSince": "gsince", "groupMaxCost": "gcmax", "groupWaiting": "gwaiting", // groups.lua
	"membersWaiting": "gmembers", "groupFloor": "gfloor", "toldWaiting": "told", "membersWeight": "gweight",
	"childrenWeight": "gcweight",
	"deferredCost":   "dcost", "deferredBytes": "dbytes", "lastTicket": "tickets", "givenUpTo": "givenup", // overflow.lua
	"olderUpTo": "gen", "generationSince": "genat", "olderJobs": "older", "olderCost": "oldercost",
	"olderBytes": "olderbytes", "announcedAt": "roomat", "readmittedBytes": "backbytes", "headNeeds": "headneed",
	"overflowId": "ofid", "holderUntil": "until", // readmit.lua
	"limitsState": "lstate", "limitsChanged": "lchanged", // limits.lua
	"outflowStart": "mw", "outflowCur": "mc", "outflowPrev": "mp", "endedLookAt": "ended_look", // ended.lua
	"pausedBy": "pby", "pauseReason": "preason", "pausedSince": "psince", // pause.lua
	"importMark": "import", "importOpen": "importing", // import.lua
	"pullersAskAt": "polled", "lastAsked": "asked", // reserve.lua
	"rateChanges": "adaptions", // adapt.lua
}

// withStoredNames replaces names in Lua by stored names.
func withStoredNames(script string) string {
	return replaceWords(script, func(name string) string { return cmp.Or(storedNames[name], name) })
}

// hashField is a field of a hash that nearly every script reads: its name there, and in Lua.
type hashField struct{ name, lua string }

// record is a field of a hash that holds several packed values, which are read and written together: reading a field
// takes Redis as long as unpacking ten values. A queue's records are short, because Redis keeps a hash compact only
// while each of its fields takes at most 64 bytes.
type record struct {
	name   string
	values hashFields // in their order; a setting has its own name
}

// queueRecords and queueTexts are the fields that scripts read of a queue, see lua/lib/queue.lua. All are written when
// the queue is made, and first: Redis searches a compact hash from its beginning.
var (
	queueRecords = []record{
		{"bucket", fields("n", "d", "burst", "tat", "rem", "last", "lastCost", "lastFence", "pause")},
		{"held", fields("size", "bytes", "turn", "maxCost", "promised", "readmitted", "deferred", "behind", "appended")},
		{"terms", fields("capacity", "max_bytes maxBytes", "lease", "retry.max_attempts maxAttempts",
			"retention.for retentionFor", "retention.max retentionMax", "revision", "coveredCost", "epoch", "laned", "pull",
			"expiring")},
	}
	queueTexts = fields("name", "links", "adapt", "ruleNames", "receiverText", "dead_bytes deadBytes")
)

// partitionRecords are the records of a partition, see lua/lib/partition.lua.
var partitionRecords = []record{
	{"clock", fields("clockLast", "offset", "vouched", "doubt", "jumped", "jumps", "filed", "filedAt", "refiling",
		"ahead")},
	{"state", fields("run", "runSince", "lastFence", "watcher", "watchUntil", "deputy", "waiting", "scheduled",
		"leased", "dead", "deferred", "firstExpiry", "firstLease", "firstTimer", "firstChore", "memoryUntil",
		"memoryLeft", "memoryShare", "reigns", "memoryFair")},
}

// fields returns fields by their names. If the name in Lua differs it follows the stored one.
func fields(names ...string) (all hashFields) {
	for _, name := range names {
		name, lua, other := strings.Cut(name, " ")
		if !other {
			lua = name
		}
		all = append(all, hashField{name, lua})
	}
	return all
}

type hashFields []hashField

// each returns a text for each field, joined by a separator.
func (l hashFields) each(separator, text string) string {
	all := make([]string, len(l))
	for i, f := range l {
		all[i] = strings.NewReplacer("NAME", f.name, "LUA", f.lua).Replace(text)
	}
	return strings.Join(all, separator)
}

// recordFields returns the fields that hold records, and valuesOf the values in them.
func recordFields(records []record) (all hashFields) {
	for _, r := range records {
		all = append(all, hashField{r.name, r.name})
	}
	return all
}

func valuesOf(records []record) (all hashFields) {
	for _, r := range records {
		all = append(all, r.values...)
	}
	return all
}

// unpacked returns Lua that unpacks records into locals.
func unpacked(records []record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "  local %s = cmsgpack.unpack(%s)\n", r.values.each(", ", "LUA"), r.name)
	}
	return b.String()
}

// packed returns Lua that packs a record from the values in a table.
func (r record) packed(table string) string {
	return fmt.Sprintf("cmsgpack.pack(%s)", r.values.each(", ", table+".LUA"))
}

// readsQueue returns two Lua functions. readQueue reads a queue by its number, and returns nil if it does not exist.
// packChanged packs the changed records as arguments for HSET, and clears their changes.
//
// also are counters that few operations need, and that are read with the rest. The table of changes has entries for
// likely changes from the beginning: growing it takes Redis longer than filling it.
func readsQueue(also ...string) string {
	counters := fields(also...)
	all := slices.Concat(recordFields(queueRecords), queueTexts, counters)
	table := []string{
		valuesOf(queueRecords).each(", ", "LUA = LUA"), "name = name",
		queueTexts[1:].each(", ", "LUA = LUA ~= '' and LUA"),
	}
	if also != nil {
		table = append(table, counters.each(", ", "LUA = (LUA or 0) + 0"))
	}
	var packs strings.Builder
	for _, r := range queueRecords {
		// Setting absent entries to nil would make a table larger.
		fmt.Fprintf(&packs, "  if %s then\n    args[#args + 1] = '%s'\n    args[#args + 1] = %s\n%s\n  end\n",
			r.values.each(" or ", "changes.LUA"), r.name, r.packed("q"),
			r.values.each("\n", "    if changes.LUA then changes.LUA = nil end"))
	}
	return fmt.Sprintf(`local function readQueue(nr)
  local %s = unpack(call('HMGET', B .. 'q' .. nr, %s))
  if not bucket then return nil end
%s  return { nr = nr, changes = { %s }, %s }
end
local function packChanged(q, changes, args)
%send
`, all.each(", ", "LUA"), all.each(", ", "'NAME'"), unpacked(queueRecords),
		slices.Concat(fields("turn", "size", "bytes"), counters).each(", ", "LUA = nil"), strings.Join(table, ", "),
		packs.String())
}

// newQueues returns the Lua that making a queue needs. RECORDS has the names of the values in records, and TERMS the
// settings among these, by their names. packTexts adds the fields without records as arguments for HSET.
func newQueues() string {
	kept := new(queue.Spec).Fields()
	var settings hashFields
	for _, f := range valuesOf(queueRecords) {
		if slices.Contains(kept, any(f.name)) {
			settings = append(settings, f)
		}
	}
	return fmt.Sprintf(`local RECORDS = { %s }
local TERMS = { %s }
local function packTexts(q, args)
  for _, value in ipairs({ %s }) do args[#args + 1] = value end
end
`, valuesOf(queueRecords).each(", ", "'LUA'"), settings.each(", ", "['NAME'] = 'LUA'"),
		queueTexts.each(", ", "'NAME', q.LUA or ''"))
}

// readsPartition returns two Lua functions. readPartition returns the partition by name, or nil if the store does not
// exist. writePartition writes its changes, and further fields of its hash in the same command.
func readsPartition() string {
	records := recordFields(partitionRecords)
	packs, changed := make([]string, len(partitionRecords)), make([]string, len(partitionRecords))
	for i, r := range partitionRecords {
		packs[i], changed[i] = r.packed("m"), fmt.Sprintf("%[1]s ~= m.%[1]s", r.name)
	}
	return fmt.Sprintf(`local function readPartition()
  local recheck, %[1]s = unpack(call('HMGET', B, 'recheck', %[2]s))
  if not state then return nil end
%[3]s  return { recheck = recheck, %[4]s, %[5]s }
end
local function writePartition(m, ...)
  local %[1]s = %[6]s
  if not (... or %[7]s) then return end
  call('HSET', B, %[8]s, ...)
  %[9]s = %[1]s
end
`, records.each(", ", "LUA"), records.each(", ", "'NAME'"), unpacked(partitionRecords),
		records.each(", ", "LUA = LUA"), valuesOf(partitionRecords).each(", ", "LUA = LUA"), strings.Join(packs, ", "),
		strings.Join(changed, " or "), records.each(", ", "'NAME', LUA"), records.each(", ", "m.LUA"))
}

// clockRecord returns Lua that unpacks and packs the record of the clock, the first of the partition's, for takes.
func clockRecord() string {
	r := partitionRecords[0]
	return fmt.Sprintf(`local function unpackClock(%[1]s)
%[2]s  return { %[3]s }
end
local function packClock(c) return %[4]s end
`, r.name, unpacked(partitionRecords[:1]), r.values.each(", ", "LUA = LUA"), r.packed("c"))
}
