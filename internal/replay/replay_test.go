package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
)

// line is one of the combined format.
func line(client, clock string) string {
	return fmt.Sprintf(`%s - - [10/Oct/2026:%s +0000] "GET /a?b=c HTTP/1.1" 200 5 "-" "curl/8"`+"\n", client, clock)
}

func rules(t *testing.T, texts ...string) (all []Rule) {
	t.Helper()
	for _, text := range texts {
		some, err := ReadRules(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, some...)
	}
	return all
}

// TestUnusable names what is wrong with logs and options.
func TestUnusable(t *testing.T) {
	good := line("10.0.0.1", "12:00:00")
	for name, c := range map[string]struct {
		o    Options
		logs []string
		want string
	}{
		"empty":            {Options{}, []string{""}, "log-1: no line to replay"},
		"blank":            {Options{}, []string{"\n \n\r\n"}, "log-1: no line to replay"},
		"binary":           {Options{}, []string{"\x7fELF\x00\x01"}, "binary"},
		"damaged gzip":     {Options{}, []string{"\x1f\x8b\x00\x00"}, "packed by gzip, and damaged"},
		"cut gzip":         {Options{Format: Combined}, []string{"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"}, "cannot be read"},
		"another thing":    {Options{}, []string{"[core] hello\n"}, "--format combined, ndjson or csv"},
		"all broken":       {Options{Format: Combined}, []string{"one\ntwo\n"}, `none of 2 lines can be used; line 1 of log-1 is not as HOST`},
		"format":           {Options{Format: "xml"}, []string{good}, "must be combined, ndjson or csv"},
		"field":            {Options{Rules: rules(t, "gap period=1s key={ip}")}, []string{good}, "{ip} is no field of a combined log: there are {remote_addr}"},
		"column":           {Options{Rules: rules(t, "gap period=1s key=ip"), Format: CSV}, []string{"time,client\n1,a\n"}, "{ip} is none of its columns, which are time, client"},
		"pointer":          {Options{Rules: rules(t, "gap period=1s key=ip")}, []string{`{"time":1}`}, "{ip} is no JSON pointer"},
		"cost":             {Options{Cost: "weight"}, []string{good}, "--cost: {weight} is no field"},
		"no key":           {Options{Rules: rules(t, "gap period=1s key={user}")}, []string{good}, "none of 1 lines has the key of the rule gap period=1s, {user}; line 1 of log-1 has no user"},
		"no time column":   {Options{}, []string{"a,b\n1,2\n"}, "--time must say which is the time; they are a, b"},
		"no time member":   {Options{}, []string{`{"a":1}`}, "--time must say which is the time"},
		"no such time":     {Options{Time: "/when"}, []string{`{"time":1}`}, "line 1 of log-1 has no time"},
		"time of combined": {Options{Time: "when"}, []string{good}, "a combined log says its time itself"},
		"time format":      {Options{TimeFormat: "iso"}, []string{`{"time":1}`}, "--time-format"},
		"one bad log":      {Options{}, []string{good, "\x00"}, "log-2: is a binary file"},
		"five keys": {
			Options{Rules: rules(t, "gap period=1s key={user}", "gap period=1s key={path}", "gap period=1s key={status}", "gap period=1s key={method}", "gap period=1s")},
			[]string{good},
			"more than 4 different keys",
		},
	} {
		if c.o.Rules == nil {
			c.o.Rules = rules(t, "gap period=1s")
		}
		if _, err := tryLogs(t, c.o, c.logs...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := tryLogs(t, Options{}, good); err == nil {
		t.Error("nothing to try is no error")
	}
}

// TestBrokenLines are counted, and the first told of.
func TestBrokenLines(t *testing.T) {
	good := line("10.0.0.1", "12:00:00")
	long := strings.Repeat("x", 3*MaxLineBytes) + "\n"
	log := good + "nonsense\n\n" + long + strings.Replace(good, "/Oct/", "/Foo/", 1) + strings.Replace(good, "10/Oct", "31/Feb", 1) + "\x00\x01\n" +
		strings.Replace(good, "200", "xyz", 1) + strings.Replace(good, " +0000", "", 1) + strings.TrimSuffix(good, "\n") + "\r\n" + strings.TrimSuffix(good, "\n")
	log = strings.Replace(log, "\x00\x01", "nil", 1)
	r := replayed(t, Options{Rules: rules(t, "gap period=1s")}, log)
	if r.Requests != 3 || r.Broken != 7 {
		t.Errorf("%d requests, %d broken; want 3 and 7", r.Requests, r.Broken)
	}
	var told []string
	for _, f := range r.Faults {
		told = append(told, fmt.Sprint(f.Line))
	}
	if got := strings.Join(told, " "); got != "2 4 5 6 7" {
		t.Errorf("told of lines %s", got)
	}
}

// TestLate: lines up to Window lines out of order are put where they belong, later ones are taken at the latest instant.
func TestLate(t *testing.T) {
	var b strings.Builder
	for i := range 4 * Window {
		b.WriteString(line("10.0.0.1", time.Unix(int64(i/8), 0).UTC().Format("15:04:05")))
		if i == Window-1 {
			b.WriteString(line("10.0.0.2", "00:00:00")) // Window-1 lines after those of its second at most
		}
		if i == 2*Window+10 { // more lines are read already than are put in order at a time
			b.WriteString(line("10.0.0.2", time.Unix(int64(i-Window+20)/8, 0).UTC().Format("15:04:05")))
		}
		if i == 4*Window-1 {
			b.WriteString(line("10.0.0.3", "00:00:00"))
		}
	}
	r := replayed(t, Options{Rules: rules(t, "fixed_window limit=8 period=1s")}, b.String())
	if r.Late != 1 || r.Requests != 4*Window+3 || r.Rules[0].Refused != 0 {
		t.Errorf("%d late, %d requests, %d refused", r.Late, r.Requests, r.Rules[0].Refused)
	}
	if r.From.Unix()%86400 != 0 || r.Came[0].Asked != 9 {
		t.Errorf("from %v, at most %d in a second", r.From, r.Came[0].Asked)
	}
}

// TestInstants are read in many forms.
func TestInstants(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	const noon = 1_790_942_400_000_000 // 2026-10-02T12:00:00Z
	for _, c := range []struct {
		layout, text string
		want         leaky.Instant // -1 is an error
	}{
		{"", "2026-10-02T12:00:00Z", noon},
		{"", "2026-10-02T14:00:00.25+02:00", noon + 250_000},
		{"", "2026-10-02 14:00:00", noon},
		{"", "2026-10-02 14:00:00,5", noon + 500_000},
		{"", "2026-10-02 12:00:00 +0000", noon},
		{"", "2026-10-02 12:00:00 UTC", noon},
		{"", "2026-10-02T06:30:00-0530", noon},
		{"", "02/Oct/2026:12:00:00 +0000", noon},
		{"", "Fri, 02 Oct 2026 12:00:00 GMT", noon},
		{"", "1790942400", noon},
		{"", "1790942400.000001", noon + 1},
		{"", "1790942400.0000019", noon + 1},
		{"", "1790942400000", noon},
		{"", "1790942400000000", noon},
		{"unix", "179094240000", 179_094_240_000_000_000},
		{"unix_ms", "1790942400000.5", noon + 500},
		{"unix_us", "1790942400000000.9", noon},
		{"02.01.2006 15:04:05", "02.10.2026 14:00:00", noon},
		{"", "", -1},
		{"", "yesterday", -1},
		{"", "-5", -1},
		{"", "1e400", -1},
		{"", "99999999999999999999", -1},
		{"", "9223372036854775807", -1},
		{"", "1790942400.x", -1},
		{"", "1812-10-02T12:00:00Z", -1},
		{"", "2026-10-02 12:00:00 XYZ", -1},
		{"", "31/Feb/2026:12:00:00 +0000", -1},
		{"02.01.2006 15:04:05", "2026-10-02", -1},
	} {
		clock, err := newClock(c.layout, berlin)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second time it is remembered
			at, err := clock.read([]byte(c.text))
			if c.want < 0 && err == nil || c.want >= 0 && (err != nil || at != c.want) {
				t.Errorf("%q: %d, %v; want %d", c.text, at, err, c.want)
			}
		}
	}
}

// TestCombinedInstant: the quick reader reads what the general one reads.
func TestCombinedInstant(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 20_000 {
		at := time.Unix(r.Int64N(4_000_000_000)+86400, 0).In(time.FixedZone("", (r.IntN(57)-28)*1800))
		text := []byte(at.Format(combinedLayout))
		if got, ok := combinedInstant(text); !ok || got != leaky.Instant(at.UnixMicro()) {
			t.Fatalf("%s: %d, %v", text, got, ok)
		}
		text[r.IntN(len(text))] = byte(r.IntN(128))
		got, ok := combinedInstant(text)
		want, err := time.Parse(combinedLayout, string(text))
		if ok && (err != nil || got != leaky.Instant(want.UnixMicro())) && !strings.Contains(string(text), ":60 ") {
			t.Fatalf("%q: %d, but %v, %v", text, got, want, err)
		}
	}
}

// TestFields are those of a combined line, with names, quotes and escapes as servers write them.
func TestFields(t *testing.T) {
	const log = `::1 - Jane Doe [02/Oct/2026:12:00:00 +0000] "POST /a\"b?x=[1] HTTP/2" 404 - "https://e.example/\\" "M \"q\" z"`
	for field, want := range map[string]string{
		"remote_addr": "::1", "user": "Jane Doe", "method": "POST", "path": `/a\"b`, "query": "x=[1]", "protocol": "HTTP/2", "status": "404", "bytes": "",
		"header.Referer": `https://e.example/\\`, "header.User-Agent": `M \"q\" z`,
	} {
		c := &combined{clock: &clock{zone: time.UTC}}
		slot, err := c.slot(field)
		if err != nil {
			t.Fatal(err)
		}
		_, values, err := c.parse([]byte(log))
		if err != nil || string(values[slot]) != want {
			t.Errorf("%s: %q, %v; want %q", field, values[slot], err, want)
		}
	}
}

// TestTemplate: no two lists of values make one key.
func TestTemplate(t *testing.T) {
	keys, err := parseTemplate("{a}:{b}")
	if err != nil {
		t.Fatal(err)
	}
	keys[0].slot, keys[2].slot = 0, 1
	for values, want := range map[[2]string]string{{"a:b", "c"}: "a%3Ab:c", {"a", "b:c"}: "a:b:c", {"a%3Ab", "c"}: "a%253Ab:c"} {
		got, err := keys.expand(nil, [][]byte{[]byte(values[0]), []byte(values[1])})
		if err != nil || string(got) != want {
			t.Errorf("%v: %q, %v; want %q", values, got, err, want)
		}
	}
	for _, bad := range []string{"{a}{b}", "{a", "a}", "{}", "{a}%{b}", strings.Repeat("a", 600)} {
		if _, err := parseTemplate(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestRules are read from a line, and from files.
func TestRules(t *testing.T) {
	file := func(text string) string {
		name := filepath.Join(t.TempDir(), "rules.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	list := file("rules:\n  - {name: a, algorithm: meter, rate: 5/s, burst: 10, key: '{lane}'}\n  - {name: b, algorithm: gap, period: 2s}\n")
	key := "{path}"
	got, err := ReadRules(list, &key)
	if err != nil || len(got) != 2 || got[0].Label != "a" || *got[0].Key != "{path}" || *got[1].Key != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if one, err := ReadRules(file(`{"algorithm": "gap", "period": "2s"}`), nil); err != nil || len(one) != 1 {
		t.Errorf("%+v, %v", one, err)
	}
	for text, want := range map[string]string{
		list:                               "--key must say by what of the log",
		file("rules: []"):                  "has no rule",
		file("rules: 5"):                   "must be a list",
		file("5"):                          "no rule, and no list",
		file("{"):                          "neither YAML nor JSON",
		file("- {algorithm: meter}"):       "rule 1: rate: is missing",
		"nothing.yaml":                     "neither a file nor a rule",
		"":                                 "neither a file nor a rule",
		"meter":                            "rate: is missing",
		"meter rate=0/s":                   "rate",
		"meter rate=5/s burst=0":           "burst",
		"meter rate=5/s burst=many":        "burst",
		"meter rate=5/s speed=9":           "speed: is not a field of a rule",
		"meter rate=5/s rate=6/s":          "rate: is given twice",
		"meter rate":                       "is not as FIELD=VALUE",
		"gap period=2s limit=5":            "limit: is of no use to gap",
		"gap period=0s":                    "period",
		"sliding_log limit=1e18 period=1m": "limit",
		"gap period=2s key={a":             "without a field",
	} {
		if _, err := ReadRules(text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	for text, want := range map[string]string{
		"capacity=5":               "rate: is missing",
		"rate=unlimited":           "nothing waits",
		"rate=5/s lease=3s":        "lease is not tried",
		"rate=5/s capacity=0":      "capacity",
		"rate=5/s capacity=1e18":   "capacity",
		"rate=5/s burst=-1":        "burst",
		"rate=5/s capacity=5 name": "name is not tried",
	} {
		if _, err := ReadQueue(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestQueue holds the simulation against a table: a queue of 2, one a second, of which three come at once and one later.
func TestQueue(t *testing.T) {
	q, err := ReadQueue("rate=1/s capacity=2")
	if err != nil {
		t.Fatal(err)
	}
	s := newSim(&q)
	for i, c := range []struct {
		at, cost int64
		accepted bool
		depth    int64
	}{
		{0, 1, true, 0}, // it leaves at once
		{0, 1, true, 1}, // at 1 s
		{0, 1, true, 2}, // at 2 s
		{0, 1, false, 2},
		{999_999, 1, false, 2},
		{1_000_000, 3, true, 2}, // at 3 s, and uses up 3 s
		{3_000_000, 1, true, 1}, // at 6 s
		{9_000_000, 1, true, 0},
		{9_000_000, 5000, false, 0},
	} {
		if got := s.arrive(leaky.Instant(c.at), c.cost); got != c.accepted || s.depth(leaky.Instant(c.at)) != c.depth {
			t.Errorf("%d: %v, %d wait", i, got, s.depth(leaky.Instant(c.at)))
		}
	}
	o := s.outcome()
	if o.Accepted != 6 || o.Refused != 3 || o.Never != 1 || o.Deepest != 2 || o.WaitMax.D() != 3*time.Second || o.WaitP50.D() != 1_007_615*time.Microsecond {
		t.Errorf("%+v", o)
	}
}

// TestWaits: a quantile is never below the true one, and at most 1.6 % above.
func TestWaits(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var w waits
	var all []time.Duration
	for range 10_000 {
		d := time.Duration(r.Int64N(1<<r.IntN(40))) * time.Microsecond
		w.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 1} {
		got, want := w.quantile(q).D(), all[int(q*10_000)-1]
		if got < want || float64(got) > 1.016*float64(want)+1 {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

// TestTimeline: steps grow as the log does, nothing is lost, and the depth is kept between requests.
func TestTimeline(t *testing.T) {
	q, err := ReadQueue("rate=1/s capacity=1000")
	if err != nil {
		t.Fatal(err)
	}
	log := strings.Repeat(line("10.0.0.1", "12:00:07"), 100) + line("10.0.0.1", "12:01:30") + line("10.0.0.1", "18:00:00")
	r := replayed(t, Options{Rules: rules(t, "gap period=1s"), Queues: []Queue{q}}, log)
	steps := r.Timeline.Steps
	if r.Timeline.Step.D() != time.Minute || len(steps) != 361 || steps[0].Requests != 100 || steps[0].Queues[0].Deepest != 99 || steps[1].Queues[0].Deepest < 46 ||
		steps[0].Rules[0] != (RuleStep{1, 99}) || steps[2].Queues[0].Deepest != 0 || steps[360].Requests != 1 {
		t.Errorf("steps of %v, %d of them: %+v", r.Timeline.Step, len(steps), steps[:3])
	}
	for _, name := range []string{"a.svg", "a.html"} {
		if err := CheckChart(name); err != nil {
			t.Error(err)
		}
		picture, err := r.Chart(name)
		if err != nil || !strings.Contains(string(picture), "gap period=1s: 3 allowed, 99 refused") || strings.Contains(string(picture), "<html") != strings.HasSuffix(name, "html") {
			t.Errorf("%s: %v\n%.300s", name, err, picture)
		}
	}
	if CheckChart("a.png") == nil {
		t.Error("a.png is taken")
	}
}

// TestSpread puts those of one second evenly into it.
func TestSpread(t *testing.T) {
	log := strings.Repeat(line("10.0.0.1", "12:00:00"), 4) + strings.Repeat(line("10.0.0.1", "12:00:01"), 4)
	for spread, want := range map[bool]int64{false: 6, true: 0} {
		r := replayed(t, Options{Rules: rules(t, "meter rate=4/s burst=1"), Spread: spread}, log)
		if got := r.Rules[0].Refused; got != want || !r.WholeSeconds {
			t.Errorf("spread %v: %d refused, want %d", spread, got, want)
		}
	}
}

// TestForgotten: the states of keys that are not seen again are forgotten, and what was counted of them is not.
func TestForgotten(t *testing.T) {
	p, err := newPlay(&Options{Rules: rules(t, "meter rate=5/s burst=10", "meter rate=1/s burst=1000")})
	if err != nil {
		t.Fatal(err)
	}
	const n = 100_000
	for i := range n {
		r := request{at: leaky.Instant(i) * 1000, cost: 1}
		r.keys[0] = p.rings[0].number([]byte(fmt.Sprint(i)))
		if i == 0 {
			r.cost = 1000
		}
		p.take(r)
	}
	p.take(request{at: leaky.Instant(n) * 1000, cost: 1000}) // the first key again
	if got := p.trials[1].refused; got != 1 {
		t.Errorf("%d refused of a key that had used up its burst 100 s ago, of which 1000 s are owed", got)
	}
	if live := p.trials[0].live; live > 10_000 {
		t.Errorf("%d states are kept", live)
	}
	if o := p.trials[0].outcome(p.rings[0], 0); o.Keys != n || o.Requests != n+1 || o.Refused != 2 || o.Never != 2 { // they cost more than 10
		t.Errorf("%+v", o)
	}
}

// endless is a log without an end.
type endless struct{ cancel func() }

func (e *endless) Read(p []byte) (int, error) {
	e.cancel()
	n := 0
	for text := line("10.0.0.1", "12:00:00"); n+len(text) <= len(p); {
		n += copy(p[n:], text)
	}
	return n, nil
}

func TestBrokenOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Logs: []Log{{"endless", &endless{cancel}}}, Rules: rules(t, "gap period=1s")})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestNoAllocation: a line of a known key takes no memory.
func TestNoAllocation(t *testing.T) {
	p, err := newPlay(&Options{
		Rules: rules(t, "meter rate=5/s burst=10"),
		Logs:  []Log{{"log", strings.NewReader(line("10.0.0.1", "12:00:00"))}},
	})
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(line("10.0.0.1", "12:00:01"))
	if got := testing.AllocsPerRun(1000, func() {
		r, err := p.sources[0].request(text)
		if err != nil {
			t.Fatal(err)
		}
		p.take(r)
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
}

func BenchmarkMeter(b *testing.B) {
	log := randomLog(rand.New(rand.NewPCG(9, 9)), 100_000)
	all, err := ReadRules("meter rate=5/s burst=10", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(log) / 100_000))
	b.ReportAllocs()
	for n := 0; n < b.N; n += 100_000 {
		if _, err := Run(b.Context(), Options{Rules: all, Logs: []Log{{"log", io.LimitReader(strings.NewReader(log), int64(len(log)))}}}); err != nil {
			b.Fatal(err)
		}
	}
}
