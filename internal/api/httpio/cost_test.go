package httpio

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue"
)

// What a job or another body costs to read grows with its length, whatever is in it: twice the bytes, about twice the
// memory.
func TestTextsCostLinearMemory(t *testing.T) {
	shapes := map[string]func(n int) string{
		"lists":    func(n int) string { return strings.Repeat("[", n) },
		"objects":  func(n int) string { return strings.Repeat(`{"a":`, n/5) },
		"payload":  func(n int) string { return `{"payload":` + strings.Repeat("[", n) },
		"flat":     func(n int) string { return `{"payload":[` + strings.Repeat("{},", n/3) + "0" },
		"headers":  func(n int) string { return `{"headers":{` + strings.Repeat(`"a":"b",`, n/8) + `"a":1}}` },
		"escapes":  func(n int) string { return `{"` + strings.Repeat(`\u0061`, n/6) + `":1}` },
		"jobs":     func(n int) string { return `{"jobs":[` + strings.Repeat(`{"id":1},`, n/9) + `1]}` },
		"a name":   func(n int) string { return `{"` + strings.Repeat("x", n/2) + `":[` + strings.Repeat("0,", n/4) + "0]}" },
		"lone end": func(n int) string { return strings.Repeat(`{"a":1}`, n/7) },
	}
	env := NewJobReader()
	readers := map[string]func([]byte) *Problem{
		"a job":    func(b []byte) *Problem { return env.Read(b, new(queue.Job)) },
		"a settle": func(b []byte) *Problem { return Decode(b, new(wire.Settle)) },
		"a choice": func(b []byte) *Problem { return Decode(b, new(wire.Choice)) },
	}
	for reader, read := range readers {
		for shape, text := range shapes {
			t.Run(reader+" of "+shape, func(t *testing.T) {
				const n = 256 << 10
				cost := func(b []byte) uint64 {
					var before, after runtime.MemStats
					runtime.ReadMemStats(&before)
					if read(b) == nil {
						t.Error("it was taken")
					}
					runtime.ReadMemStats(&after)
					return after.TotalAlloc - before.TotalAlloc
				}
				small, large := []byte(text(n)), []byte(text(2*n))
				cost(small)
				if one, two := cost(small), cost(large); two > 3*one+64<<10 || two > 64*uint64(len(large)) {
					t.Errorf("%d bytes cost %d, %d bytes %d", len(small), one, len(large), two)
				}
			})
		}
	}
}

// BenchmarkGuard is what the guard adds to each request.
func BenchmarkGuard(b *testing.B) {
	h := Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		GuardOptions{Names: []string{"penstock.example.com"}})
	r := httptest.NewRequest(http.MethodPost, "/v1/queues/email/jobs", strings.NewReader(`{"payload":1}`))
	r.Host = "127.0.0.1:8080"
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
