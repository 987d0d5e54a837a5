package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

// asked is a request as the naive replay keeps it.
type asked struct {
	at      time.Time
	key     string
	allowed bool
}

// TestNaive compares a replay with one that reads lines by a regular expression, sorts and keeps everything, and
// examines every window.
func TestNaive(t *testing.T) {
	for seed := range uint64(6) {
		log := randomLog(rand.New(rand.NewPCG(seed, 7)), 400)
		for _, text := range []string{
			"meter rate=2/s burst=3", "token_bucket rate=90/m burst=20", "fixed_window limit=20 period=10s",
			"sliding_log limit=15 period=10s",
			"sliding_counter limit=30 period=1m", "gap period=2s", "concurrency limit=5 ttl=7s",
		} {
			list, err := ReadRules(text, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := replayed(t, Options{Rules: list}, log).Rules[0]
			want := naive(t, log, list[0].Rule, got.Own.Span.D())
			got.Rule, got.Own.Key, got.Own.At, got.Key = "", "", time.Time{}, ""
			for i := range got.Bursts {
				got.Bursts[i].At = time.Time{}
			}
			slices.SortFunc(got.Top, byKey)
			slices.SortFunc(want.Top, byKey)
			if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w {
				t.Fatalf("seed %d, %s:\ngot  %s\nwant %s", seed, text, g, w)
			}
		}
	}
}

func byKey(a, b KeyOutcome) int { return strings.Compare(a.Key, b.Key) }

// randomLog returns a log that is sometimes a few seconds out of order, in several zones, with at most ten clients.
func randomLog(r *rand.Rand, lines int) string {
	var b strings.Builder
	now := time.Date(2026, 10, 24, 23, 59, 30, 0, time.UTC)
	for range lines {
		now = now.Add(time.Duration(r.ExpFloat64() * float64(300*time.Millisecond)))
		at := now.Add(-time.Duration(r.IntN(5)) * time.Second).In(time.FixedZone("", (r.IntN(5)-2)*5400))
		client := min(int(r.ExpFloat64()*2), 9)
		_, _ = fmt.Fprintf(
			&b, "10.0.0.%d - - [%s] \"GET /%d HTTP/1.1\" 200 17\n", client, at.Format(combinedLayout), r.IntN(4),
		)
	}
	return b.String()
}

func replayed(t *testing.T, o Options, logs ...string) *Report {
	t.Helper()
	r, err := tryLogs(t, o, logs...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryLogs(t *testing.T, o Options, logs ...string) (*Report, error) {
	for i, log := range logs {
		o.Logs = append(o.Logs, Log{fmt.Sprintf("log-%d", i+1), strings.NewReader(log)})
	}
	return Run(t.Context(), o)
}

var combinedLine = regexp.MustCompile(`(?m)^(\S+) \S+ \S+ \[([^\]]+)\] "`)

func naive(t *testing.T, log string, rule rules.Rule, own time.Duration) (o Outcome) {
	var all []asked
	for _, m := range combinedLine.FindAllStringSubmatch(log, -1) {
		at, err := time.Parse(combinedLayout, m[2])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, asked{at: at, key: m[1]})
	}
	slices.SortStableFunc(all, func(a, b asked) int { return a.at.Compare(b.at) })
	limiter, err := rule.Limiter(rule.Algorithm)
	if err != nil {
		t.Fatal(err)
	}
	tallies := map[string]leaky.Tally{}
	for i := range all {
		a := &all[i]
		if tallies[a.key] == nil {
			tallies[a.key] = limiter.Fresh()
		}
		d := tallies[a.key].Take(leaky.Instant(a.at.UnixMicro()), leaky.Ask{Lease: fmt.Sprint(i)})
		a.allowed = d.Allowed
		o.LongestWait = max(o.LongestWait, unit.Duration(d.RetryAfter))
	}
	for _, span := range spans {
		_, allowed := mostIn(all, span)
		ask, _ := mostIn(all, span)
		o.Bursts = append(o.Bursts, Burst{Span: unit.Duration(span), Asked: ask, Allowed: allowed})
	}
	o.Own.Span = unit.Duration(own)
	o.Requests = int64(len(all))
	for key := range tallies {
		of := slices.DeleteFunc(slices.Clone(all), func(a asked) bool { return a.key != key })
		k := KeyOutcome{Key: key, Requests: int64(len(of))}
		for _, a := range of {
			if a.allowed {
				k.Allowed++
			} else {
				k.Refused++
			}
		}
		k.BurstAsked, k.BurstAllowed = mostIn(of, own)
		if k.BurstAllowed > o.Own.Allowed {
			o.Own.Allowed, o.Own.Asked = k.BurstAllowed, k.BurstAsked
		} else if k.BurstAllowed == o.Own.Allowed {
			o.Own.Asked = max(o.Own.Asked, k.BurstAsked)
		}
		o.Keys++
		o.Allowed += k.Allowed
		o.Refused += k.Refused
		if k.Refused > 0 {
			o.KeysRefused++
		}
		o.Top = append(o.Top, k)
	}
	o.Share = float64(o.Refused) / float64(o.Requests)
	return o
}

// mostIn examines the window that begins with each request.
func mostIn(all []asked, span time.Duration) (most, allowed int64) {
	for i, first := range all {
		var n, passed int64
		for _, a := range all[i:] {
			if a.at.Sub(first.at) >= span {
				break
			}
			n++
			if a.allowed {
				passed++
			}
		}
		most, allowed = max(most, n), max(allowed, passed)
	}
	return most, allowed
}

// TestAnyPackingGivesTheSame checks that a log gives the same result in one piece, packed, in merged pieces, and as
// CSV and NDJSON.
func TestAnyPackingGivesTheSame(t *testing.T) {
	log := randomLog(rand.New(rand.NewPCG(1, 1)), 5000)
	lines := strings.SplitAfter(strings.TrimSuffix(log, "\n"), "\n")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = io.WriteString(w, log[:len(log)/2])
	_ = w.Close()
	w = gzip.NewWriter(&packed) // a second gzip member, as appending by logrotate makes
	_, _ = io.WriteString(w, log[len(log)/2:])
	_ = w.Close()
	var odd, even, csv, ndjson strings.Builder
	csv.WriteString("client;when\n")
	for i, line := range lines {
		if i%2 == 0 {
			even.WriteString(line)
		} else {
			odd.WriteString(line)
		}
		m := combinedLine.FindStringSubmatch(line)
		at, _ := time.Parse(combinedLayout, m[2])
		_, _ = fmt.Fprintf(&csv, "\"%s\";%s\n", m[1], at.Format("2006-01-02 15:04:05 -0700"))
		_, _ = fmt.Fprintf(&ndjson, `{"x":[1,{"time":0}],"time":%d,"from":{"ip":%q}}`+"\n", at.UnixMilli(), m[1])
	}
	try := func(key string, o Options, logs ...string) string {
		list, err := ReadRules("meter rate=2/s burst=3", &key)
		if err != nil {
			t.Fatal(err)
		}
		o.Rules = list
		r := replayed(t, o, logs...)
		out := r.Rules[0]
		out.Key, out.Own.At, out.Own.Key = "", time.Time{}, ""
		for i := range out.Bursts {
			out.Bursts[i].At = time.Time{}
		}
		slices.SortFunc(out.Top, byKey)
		return fmt.Sprintf("%+v %v %v", out, r.Requests, r.Late)
	}
	want := try("remote_addr", Options{}, log)
	for name, got := range map[string]string{
		"packed": try("{remote_addr}", Options{}, packed.String()),
		"merged": try("remote_addr", Options{}, even.String(), odd.String()),
		"after":  try("remote_addr", Options{}, strings.Join(lines[2500:], ""), strings.Join(lines[:2500], "")),
		"csv":    try("client", Options{Time: "when"}, csv.String()),
		"ndjson": try("/from/ip", Options{}, ndjson.String()),
	} {
		if got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}
