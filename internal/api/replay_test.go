package api_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
	"github.com/penstock/penstock/queue/unit"
)

const asBytes = "application/octet-stream"

// accessLog has so many lines, ten a second, of some addresses in turn.
func accessLog(n, addresses int) string {
	var b strings.Builder
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range n {
		fmt.Fprintf(&b, "10.0.%d.%d - - [%s] \"GET /a HTTP/1.1\" 200 12\n", i%addresses/250, i%addresses%250,
			at.Add(time.Duration(i/10)*time.Second).Format("02/Jan/2006:15:04:05 -0700"))
	}
	return b.String()
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func TestReplay(t *testing.T) {
	f := serve(t, api.Options{})
	rule := rules.Rule{
		Name: "by-user", Algorithm: leaky.AlgorithmFixedWindow, Key: "lane",
		Bound: rules.Bound{Limit: 1, Period: unit.Duration(time.Hour)},
	}
	if _, err := f.engine.PutRule(context.Background(), rule, 0); err != nil {
		t.Fatal(err)
	}
	log := accessLog(100, 4)
	for _, c := range []struct {
		name, query, body string
		allowed, refused  int64
	}{
		{"written out", "rule=fixed_window+limit%3D5+period%3D1h", log, 20, 80},
		{"of the store", "rule=by-user&key=remote_addr", log, 4, 96},
		{"packed", "rule=fixed_window+limit%3D5+period%3D1h&name=%3Cb%3E", gzipped(log), 20, 80},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.do("POST", "/v1/replay?"+c.query, c.body, "Content-Type", asBytes)
			a.want(t, 200, "requests", 100)
			if want := fmt.Sprintf(`"allowed":%d,"refused":%d`, c.allowed, c.refused); !strings.Contains(a.text, want) {
				t.Errorf("not %s: %.600s", want, a.text)
			}
		})
	}
	a := f.do("POST", "/v1/replay?queue=email&queue=rate%3D1%2Fs+capacity%3D5", log, "Content-Type", asBytes)
	a.want(t, 200)
	if strings.Count(a.text, `"deepest"`) < 2 || !strings.Contains(a.text, `"queue":"email"`) {
		t.Errorf("queues: %.600s", a.text)
	}
}

func TestReplayRefuses(t *testing.T) {
	f := serve(t, api.Options{})
	const rule = "rule=fixed_window+limit%3D5+period%3D1h"
	log := accessLog(10, 1)
	for _, c := range []struct {
		name, query, body, media string
		status                   int
		says                     string
	}{
		{"nothing to try", "", log, asBytes, 400, "give 1 to 8"},
		{"too much to try", strings.Repeat(rule+"&", 9), log, asBytes, 400, "give 1 to 8"},
		{"a text", rule, log, "text/plain", 415, asBytes},
		{"no rule", "rule=nothing", log, asBytes, 404, `there is no rule \"nothing\"`},
		{"no queue", "queue=nothing", log, asBytes, 404, `there is no queue \"nothing\"`},
		{"a rule that is wrong", "rule=meter+rate%3Dx", log, asBytes, 400, "rate"},
		{"a queue that is wrong", "queue=rate%3Dx", log, asBytes, 400, "queue"},
		{"no format", rule + "&format=pdf", log, asBytes, 400, "combined, ndjson or csv"},
		{"no zone", rule + "&timezone=Mars", log, asBytes, 400, "Europe/Berlin"},
		{"two keys", rule + "&key=a&key=b", log, asBytes, 400, "twice"},
		{"no field", rule + "&key=colour", log, asBytes, 400, "colour"},
		{"empty", rule, "", asBytes, 400, "no line to replay"},
		{"binary", rule, "\x7fELF\x00\x01\x02", asBytes, 400, "is a binary file"},
		{"no log", rule, strings.Repeat("lorem ipsum\n", 9), asBytes, 400, "format"},
		{"one endless line", rule, log + strings.Repeat("x", 3<<20), asBytes, 200, `"broken_lines":1`},
		{
			"nothing but an endless line", rule + "&format=combined", strings.Repeat("x", 3<<20), asBytes, 400,
			"none of 1 lines",
		},
		{"too many lines", rule, log + strings.Repeat("\n", 1_000_000), asBytes, 413, "more than 1,000,000 lines"},
		{
			"too long unpacked", rule, gzipped(log + strings.Repeat(strings.Repeat("x", 1<<20)+"\n", 65)), asBytes, 413,
			"64 MiB, unpacked",
		},
		{"a packed file cut short", rule, gzipped(accessLog(9999, 77))[:9000], asBytes, 400, "cut short"},
		{"too many keys", rule, accessLog(400_000, 400_000), asBytes, 413, "too many keys"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.do("POST", "/v1/replay?"+c.query, c.body, "Content-Type", c.media)
			if a.want(t, c.status); !strings.Contains(a.text, c.says) || strings.Contains(a.text, "--t") {
				t.Errorf("%.400s, want %q", a.text, c.says)
			}
		})
	}
}

// What a replay holds is charged, and given back.
func TestReplayIsCharged(t *testing.T) {
	budget := ops.NewBudget(4 << 20)
	f := serve(t, api.Options{Memory: budget})
	log := accessLog(30_000, 30_000)
	a := f.do("POST", "/v1/replay?rule=meter+rate%3D5%2Fs", log, "Content-Type", asBytes)
	a.want(t, 503, "reason", "overloaded")
	if used := budget.Used(); used != 0 {
		t.Errorf("%d bytes are charged when it is over", used)
	}
}

// Who waits for a slow sender holds up no other replay.
func TestSlowReplaysHoldUpNobody(t *testing.T) {
	f := serve(t, api.Options{})
	for range 3 {
		body, slow := io.Pipe()
		req := httptest.NewRequest(http.MethodPost, f.url+"/v1/replay?rule=meter+rate%3D5%2Fs", body)
		req.RequestURI = ""
		req.Header.Set("Content-Type", asBytes)
		go func() {
			if resp, err := f.client.Do(req); err == nil {
				resp.Body.Close()
			}
		}()
		_, _ = io.WriteString(slow, accessLog(1, 1))
		t.Cleanup(func() { slow.Close() })
	}
	a := f.do("POST", "/v1/replay?rule=meter+rate%3D5%2Fs", accessLog(10, 1), "Content-Type", asBytes)
	a.want(t, 200, "requests", 10)
}
