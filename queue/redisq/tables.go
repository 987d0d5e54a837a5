package redisq

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/readmit"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/rules"
)

// tables are the files of lua/lib that are generated from tables of package queue.
var tables = map[string]string{
	"appendoutcomes": luaConstants("", queue.AppendOutcomes()...) +
		luaConstants("", upTo(acceptedBefore, missingCost)...),
	"attemptoutcomes": luaConstants("ATTEMPT_", upTo(queue.UnderWay, queue.AttemptDown)...),
	"importoutcomes":  luaConstants("", upTo(move.Placed, move.Failed)...),
	"readmitoutcomes": luaConstants("", upTo(readmit.NotYet, readmit.TooLarge)...),
	"replayoutcomes":  luaConstants("", upTo(queue.NotDead, queue.Broken)...),
	"stopcauses":      stopCauses(),
	"settlecodes": fmt.Sprintf("local LANE_ONLY, TROUBLE, UNTOLD, NO_TARGET = %d, %d, %d, %d\n",
		laneOnly, trouble, untold, byte(queue.Throttle)+trouble),
	"takeops": luaConstants("", upTo(rules.TakeNow, rules.TakeCorrect)...) +
		fmt.Sprintf("local NOTHING, CORRECT_FOR = %d, %d\n", askNothing, rules.CorrectFor.Microseconds()),
	"notforqueues":  notForQueues(),
	"counters":      counterTable(),
	"outcomecounts": countsOutcomes(),
	"fields":        readsPartition() + readsQueue(),
	"clockrecord":   clockRecord(),
	"newqueues":     newQueues(),
	"bounds": fmt.Sprintf("local MAX_AUDIT_TEXT, MAX_AUDIT_DIFF, KEEP_DELETED_DOCUMENTS = %d, %d, %d\n",
		audit.MaxTextBytes, audit.MaxDiffBytes, document.KeepDeleted.Microseconds()),
	"auditbudgets":  auditBudgets(),
	"firstrevision": fmt.Sprintf("local FIRST_REVISION = %d\n", queue.FirstRevision),
}

// appendAnswer is an answer of append.lua that stands for an outcome and more.
type appendAnswer uint8

const (
	acceptedBefore appendAnswer = 100 + iota // accepted by this very call
	deferredBefore                           // a duplicate of a deferred job
	tooFar                                   // invalid: not before is too far ahead
	cannotAsk                                // invalid: a rule cannot be asked
	tooLarge                                 // invalid: larger than the bound in bytes
	storeFull                                // failed: the store is nearly out of memory
	uncountedUnit                            // invalid: a cost in a unit that no limit has
	missingCost                              // invalid: no cost in a unit that a limit has
)

func (a appendAnswer) String() string {
	return [...]string{
		"accepted_before", "deferred_before", "too_far", "cannot_ask", "too_large",
		"store_full", "uncounted_unit", "missing_cost",
	}[a-acceptedBefore]
}

// auditBudgets returns a Lua function that returns about how many bytes a store keeps of a budget of the audit log.
func auditBudgets() string {
	var b strings.Builder
	b.WriteString("local function budgetBytes(budget)\n")
	for _, of := range []audit.Budget{audit.Operators, audit.Anonymous, audit.Nobody} {
		fmt.Fprintf(&b, "  if budget == '%s' then return %d end\n", of, of.Bytes())
	}
	fmt.Fprintf(&b, "  return %d -- of an app\nend\n", audit.OfApp("").Bytes())
	return b.String()
}

type enumeration interface {
	~uint8
	fmt.Stringer
}

// upTo returns the values of an enumeration from first to last.
func upTo[E enumeration](first, last E) (all []E) {
	for e := first; e <= last; e++ {
		all = append(all, e)
	}
	return all
}

// states and verdicts are the numbers that replace names like S.waiting and V.delivered in scripts: a Lua table of them
// would be made at every call.
var states, verdicts = numbered(upTo(queue.Waiting, queue.Expired)), numbered(upTo(queue.Deliver, queue.Down))

func numbered[E enumeration](all []E) map[string]string {
	numbers := map[string]string{}
	for _, e := range all {
		numbers[e.String()] = fmt.Sprint(uint8(e))
	}
	return numbers
}

// withNumbers replaces the names of states and verdicts by their numbers. An unknown name stays, and fails, because no
// script declares S or V.
func withNumbers(script string) string {
	return replaceTokens(script, func(token string) string {
		if name, ok := strings.CutPrefix(token, "S."); ok {
			return cmp.Or(states[name], token)
		}
		if name, ok := strings.CutPrefix(token, "V."); ok {
			return cmp.Or(verdicts[name], token)
		}
		return token
	})
}

var (
	luaDeclared = regexp.MustCompile(`^local ([A-Z][A-Z0-9_]*(?:, [A-Z][A-Z0-9_]*)*) = ([^{}\n]*?)(?: *--.*)?\n$`)
	luaLiteral  = regexp.MustCompile(`^(?:'(?:[^'\\]|\\.)*'|[0-9 ^*+()-]+)$`)
)

func notLiteral(value string) bool { return !luaLiteral.MatchString(value) }

// withConstants replaces constants at the top of a file by their values, if these are numbers or texts. Each constant
// that a function uses would be another object that Redis makes at every call. A name must have one value in a script.
func withConstants(script string) string {
	values := map[string]string{}
	put := func(text string) string {
		return replaceTokens(text, func(token string) string { return cmp.Or(values[token], token) })
	}
	var b strings.Builder
	for line := range strings.Lines(script) {
		if declared := declaredConstants(line, put); declared != nil {
			for name, value := range declared {
				if was, ok := values[name]; ok && was != value {
					panic(fmt.Sprintf("lua: %s is %s and %s in one script", name, was, value))
				}
				values[name] = value
			}
			line = "\n"
		}
		b.WriteString(line)
	}
	return put(b.String())
}

// declaredConstants returns the constants that a line declares, or nil. put replaces constants of earlier lines.
func declaredConstants(line string, put func(text string) string) map[string]string {
	const local = "local "
	if !strings.HasPrefix(line, local) || line[len(local)] < 'A' || line[len(local)] > 'Z' {
		return nil // nearly all lines
	}
	m := luaDeclared.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	names, all := strings.Split(m[1], ", "), strings.Split(put(m[2]), ", ")
	if len(names) != len(all) || slices.ContainsFunc(all, notLiteral) {
		return nil
	}
	declared := map[string]string{}
	for i, name := range names {
		if strings.Contains(all[i], " ") && all[i][0] != '\'' {
			all[i] = "(" + all[i] + ")"
		}
		declared[name] = all[i]
	}
	return declared
}

// luaConstants returns Lua that declares constants, named with a prefix.
func luaConstants[E enumeration](prefix string, all ...E) string {
	var names, numbers []string
	for _, e := range all {
		names, numbers = append(names, prefix+strings.ToUpper(e.String())), append(numbers, fmt.Sprint(uint8(e)))
	}
	return "local " + strings.Join(names, ", ") + " = " + strings.Join(numbers, ", ") + "\n"
}

// stopCauses returns Lua constants for the causes of stops.
func stopCauses() string {
	var b strings.Builder
	for _, c := range queue.StopCauses {
		fmt.Fprintf(&b, "local STOP_%s = '%s'\n", strings.ToUpper(string(c)), c)
	}
	return b.String()
}

// counterTable returns Lua tables with the fields in which a queue counts, and whether each counts jobs that came in or
// that ended. It also returns a function that returns the counters of a queue, in their order.
func counterTable() string {
	var names, jobs strings.Builder
	for _, c := range queue.CounterTable {
		fmt.Fprintf(&names, "'%s', ", c.Name)
		fmt.Fprintf(&jobs, "%d, ", c.Jobs)
	}
	return fmt.Sprintf(`local COUNTERS, COUNTS_JOBS = { %s }, { %s }
local function countersOf(q)
  local counted = call('HMGET', B .. 'q' .. q.nr, unpack(COUNTERS))
  for i, field in ipairs(COUNTERS) do counted[i] = q[field] or tonumber(counted[i]) or 0 end
  return counted
end
`, names.String(), jobs.String())
}

// notForQueues returns the algorithms of rules that queues cannot use.
func notForQueues() string {
	var list []string
	for _, a := range rules.Algorithms() {
		if !rules.ForQueues(a) {
			list = append(list, fmt.Sprintf("%s = true", a))
		}
	}
	return fmt.Sprintf("local NOT_FOR_QUEUES = { %s }\n", strings.Join(list, ", "))
}

// countsOutcomes returns a Lua function that counts an outcome in a table, under the name of its counter. It makes the
// table when there is something to count.
func countsOutcomes() string {
	codes := map[string][]string{}
	for _, o := range queue.AppendOutcomes() {
		codes[o.Counter()] = append(codes[o.Counter()], fmt.Sprint("code == ", uint8(o)))
	}
	var b strings.Builder
	b.WriteString("local function countOutcome(counted, code)\n")
	for _, c := range queue.CounterTable {
		if of := codes[c.Name]; of != nil {
			fmt.Fprintf(&b, "  if %s then\n    counted = counted or {}\n    counted.%[2]s = (counted.%[2]s or 0) + 1\n  end\n",
				strings.Join(of, " or "), c.Name)
		}
	}
	b.WriteString("  return counted\nend\n")
	return b.String()
}
