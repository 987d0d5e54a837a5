package queue

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sources returns the texts of the files that match a pattern, except tests.
func sources(t *testing.T, pattern string) string {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, %d files", pattern, err, len(files))
	}
	var all strings.Builder
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if !strings.HasSuffix(file, "_test.go") {
			all.Write(text)
		}
	}
	return all.String()
}

// A counter is complete if its row is, and if both engines count it: a counter of an outcome only where they count
// outcomes, so that it does not count twice, and every other one by its name.
func TestCountersAreComplete(t *testing.T) {
	rules, scripts := sources(t, "machine/*.go"), sources(t, "redisq/lua/*/*.lua")
	appends := sources(t, "redisq/lua/lib/appendjob.lua")
	if !strings.Contains(rules, ".countOutcome(") || !strings.Contains(appends, "= countOutcome(") {
		t.Error("an engine does not count outcomes")
	}
	rows, seen := reflect.TypeFor[Counters](), map[string]bool{}
	for n, c := range CounterTable {
		row := rows.Field(n)
		if c.Name == "" || seen[c.Name] || !strings.HasSuffix(c.Help, ".") || row.Type.Kind() != reflect.Int64 {
			t.Errorf("the row %s is not complete: %+v", row.Name, c)
		}
		seen[c.Name] = true
		if !slices.Contains([]string{"", "irregular", "overflow"}, c.Group) {
			t.Errorf("%s: there is no group %q", row.Name, c.Group)
		}
		if jobs := row.Tag.Get("jobs"); (jobs != "") != (c.Jobs != 0) {
			t.Errorf("%s: jobs is %q", row.Name, jobs)
		}
		ofOutcome := slices.ContainsFunc(AppendOutcomes(), func(o AppendOutcome) bool { return o.Counter() == c.Name })
		byName := strings.Contains(rules, "."+row.Name+"++") || strings.Contains(rules, "."+row.Name+" += ")
		if byName == ofOutcome {
			t.Errorf("the machine counts %s by name: %v, and by outcome: %v", row.Name, byName, ofOutcome)
		}
		if ofOutcome {
			if strings.Contains(appends, "'"+c.Name+"'") || strings.Contains(scripts, "add(q, '"+c.Name+"'") {
				t.Errorf("redisq counts %s by name and by outcome", c.Name)
			}
			continue
		}
		if !strings.Contains(scripts, "'"+c.Name+"'") {
			t.Errorf("redisq does not count %s", c.Name)
		}
	}
}

func TestCountersBalance(t *testing.T) {
	c := Counters{Appended: 9, Delivered: 2, Retried: 5}
	c.Add((&Counters{Appended: 1, SetAside: 4, Returned: 3, Died: 1}).Values())
	if want := (Counters{Appended: 10, SetAside: 4, Returned: 3, Delivered: 2, Died: 1, Retried: 5}); c != want ||
		c.Balance() != 8 {
		t.Errorf("%+v, %d should be held or deferred", c, c.Balance())
	}
}

// A departure ends in one of many ways. Events of a job without a departure do not count.
func TestDeparturesAreCounted(t *testing.T) {
	c := Counters{
		Delivered: 1, Retried: 2, Died: 4, Released: 8, Throttled: 16, Down: 32, Expired: 64,
		Appended: 1000, Replayed: 1000, Cancelled: 1000, TimedOut: 1000, Refused: 1000, Lost: 1000, SetAside: 1000,
		Returned: 1000, Missing: 1000,
	}
	if n := c.Departures(); n != 127 {
		t.Errorf("%d departures, want 127", n)
	}
}
