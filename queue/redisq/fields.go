package redisq

import (
	"fmt"
	"strings"
)

// hashField is what nearly every script reads of a hash: its name there and in Lua, and the Lua that makes of it what
// it is in a table.
type hashField struct{ name, lua, read string }

// queueFields are those of a queue, see lua/lib/queue.lua.
var queueFields = joinFields(
	fields("%s + 0", "n", "d", "b", "tat", "rem", "last", "lc", "lf", "capacity cap", "size", "turn", "cmax", "refn",
		"lease", "retry.max_attempts maxatt", "retention.for rfor", "retention.max rmax", "rev"),
	fields("(%s or 0) + 0", "back", "deferred", "behind", "bytes", "max_bytes maxbytes"),
	fields("(%s or MAX_COST) + 0", "hc"),
	fields("%s", "name", "epoch", "paused pause", "laned", "also", "pull", "expiring", "adapt", "ruled"),
	fields("%s ~= '' and %[1]s", "said"),
)

// partitionFields are those of a partition, see lua/lib/partition.lua.
var partitionFields = joinFields(
	fields("%s or ''", "run", "watcher", "deputy"),
	fields("%s or 0", "recheck"),
	fields("(%s or 0) + 0", "clk", "off", "run_since", "last_fence", "watcher_at", "waiting", "scheduled", "leased",
		"dead", "deferred", "first_expiry", "first_lease", "first_timer", "first_chore", "memory_until",
		"memory_left", "memory_share"),
)

// fields are fields that are read alike. Behind the name stands that in Lua, if it is another.
func fields(read string, names ...string) (all []hashField) {
	for _, name := range names {
		name, lua, other := strings.Cut(name, " ")
		if !other {
			lua = name
		}
		all = append(all, hashField{name, lua, fmt.Sprintf(read, lua)})
	}
	return all
}

func joinFields(some ...[]hashField) (all hashFields) {
	for _, s := range some {
		all = append(all, s...)
	}
	return all
}

type hashFields []hashField

// each is some text about each field, with commas between them.
func (l hashFields) each(text func(hashField) string) string {
	all := make([]string, len(l))
	for i, f := range l {
		all[i] = text(f)
	}
	return strings.Join(all, ", ")
}

func (l hashFields) names() string {
	return l.each(func(f hashField) string { return "'" + f.name + "'" })
}
func (l hashFields) locals() string { return l.each(func(f hashField) string { return f.lua }) }
func (l hashFields) reads() string  { return l.each(func(f hashField) string { return f.read }) }
func (l hashFields) table() string {
	return l.each(func(f hashField) string { return f.lua + " = " + f.read })
}

// readsQueue is a function that reads a queue by its number, and returns nil if there is none. All of it is made for
// speed, as it is much of what a small call costs: a text plus 0 is a number for less than half of what tonumber takes.
//
// also are counters that few operations need, and read with the rest.
func readsQueue(also ...string) string {
	queueFields := joinFields(queueFields, fields("(%s or 0) + 0", also...))
	return fmt.Sprintf(`local function read_queue(nr)
  local %s = unpack(call('HMGET', B .. 'q' .. nr, %s))
  if not n then return nil end
  return { nr = nr, changes = {}, %s }
end
`, queueFields.locals(), queueFields.names(), queueFields.table())
}

// readsPartition is a function that reads the partition: by name, and in the order of PARTITION. It returns nil if
// there is no store.
func readsPartition() string {
	same := partitionFields.each(func(f hashField) string { return f.lua + " = " + f.lua })
	return fmt.Sprintf(`local PARTITION = { %s }
local function read_partition()
  local schema, %s = unpack(call('HMGET', B, 'schema', %s))
  if not schema then return nil end
  %s = %s
  return { %s }, { %s }
end
`, partitionFields.names(), partitionFields.locals(), partitionFields.names(), partitionFields.locals(),
		partitionFields.reads(), same, partitionFields.locals())
}
