package clients

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fault is what the proxy does to requests.
type fault struct {
	// On is the method and the path, such as "POST /v1/queues/{q}/jobs".
	On string `json:"on"`
	// Skip is how many requests pass before, Times how many it meets: 0 is one, -1 is all.
	Skip  int `json:"skip"`
	Times int `json:"times"`
	// Do is drop (the request is not forwarded), lose (it is forwarded, and its answer is lost), cut (the answer ends
	// after Bytes), slow (the answer comes in pieces), hang (no answer comes until the client leaves), wait (it is
	// forwarded after Seconds), expire (the token expires, and its file has a new one), extend (the answer has further
	// fields), skew (the answer has a wrong date), html or answer (Status, Headers and Body instead of forwarding).
	Do      string            `json:"do"`
	Bytes   int               `json:"bytes"`
	Seconds float64           `json:"seconds"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

// proxy is a proxy in front of a server, and a provider of its own under /provider.
//
// Clients have tokens that only the proxy knows: it replaces the valid one by the server's, and passes others on.
type proxy struct {
	url   string
	to    *server
	renew func(token string) // gives the client another token

	mu     sync.Mutex
	valid  string
	faults []*fault
	seen   []request

	acks chan struct{} // of the provider's events
}

type request struct {
	on string
	at time.Time
	do string
}

func startProxy(t *testing.T, to *server) *proxy {
	p := &proxy{to: to, acks: make(chan struct{})}
	s := httptest.NewUnstartedServer(p)
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that are ended on purpose
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	p.url = s.URL
	return p
}

// accept makes a token the only valid one, and returns it.
func (p *proxy) accept(token string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.valid = "ps_" + token
	return p.valid
}

func (p *proxy) arm(faults []fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range faults {
		f := faults[i]
		if f.Times == 0 {
			f.Times = 1
		}
		p.faults = append(p.faults, &f)
	}
}

// next notes a request, and returns the fault that meets it, or nil.
func (p *proxy) next(on string) *fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	var met *fault
	for _, f := range p.faults {
		if f.On != on || f.Times == 0 || met != nil {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		f.Times--
		met = f
	}
	r := request{on: on, at: time.Now()}
	if met != nil {
		r.do = met.Do
	}
	p.seen = append(p.seen, r)
	return met
}

func (p *proxy) times(on string) (all []time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		if r.on == on {
			all = append(all, r.at)
		}
	}
	return all
}

func (p *proxy) log() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.seen {
		all = append(all, fmt.Sprintf("%s %s %s", r.at.Format("15:04:05.000"), r.on, r.do))
	}
	return all
}

// ServeHTTP implements http.Handler.
func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.next(r.Method + " " + r.URL.Path)
	if f == nil {
		f = &fault{}
	}
	switch f.Do {
	case "drop":
		panic(http.ErrAbortHandler)
	case "hang":
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
		return
	case "wait":
		select {
		case <-time.After(time.Duration(f.Seconds * float64(time.Second))):
		case <-r.Context().Done():
			return
		}
	case "html":
		page := fault{Status: f.Status, Headers: map[string]string{"Content-Type": "text/html"}, Body: "<html></html>"}
		page.write(w)
		return
	case "expire":
		p.renew(p.accept("renewed"))
	case "answer":
		f.write(w)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/provider") {
		p.provide(w, r)
		return
	}
	p.forward(w, r, f)
}

func (f *fault) write(w http.ResponseWriter) {
	for k, v := range f.Headers {
		w.Header().Set(k, v)
	}
	w.WriteHeader(f.Status)
	_, _ = io.WriteString(w, f.Body)
}

func (p *proxy) forward(w http.ResponseWriter, r *http.Request, f *fault) {
	out, err := http.NewRequestWithContext(r.Context(), r.Method, p.to.url+r.URL.RequestURI(), r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	out.Header, out.ContentLength = r.Header.Clone(), r.ContentLength
	p.mu.Lock()
	if r.Header.Get("Authorization") == "Bearer "+p.valid {
		out.Header.Set("Authorization", "Bearer "+p.to.token)
	}
	p.mu.Unlock()
	_ = http.NewResponseController(w).EnableFullDuplex()
	answer, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler) // as a server that is away
	}
	defer func() { _ = answer.Body.Close() }()
	if f.Do == "lose" {
		_, _ = io.Copy(io.Discard, answer.Body)
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header {
		w.Header()[k] = v
	}
	switch f.Do {
	case "skew":
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
	case "extend":
		body := bytes.Replace(readAll(answer.Body), []byte("{"), []byte(`{"new_field":{"x":[1]},`), 1)
		w.Header().Del("Content-Length")
		w.WriteHeader(answer.StatusCode)
		_, _ = w.Write(body)
		return
	}
	w.WriteHeader(answer.StatusCode)
	f.copy(w, answer.Body)
}

// copy passes the body of an answer on at once.
func (f *fault) copy(w http.ResponseWriter, body io.Reader) {
	flush := http.NewResponseController(w)
	buffer := make([]byte, 64<<10)
	if f.Do == "slow" {
		buffer = buffer[:7]
	}
	for passed := 0; ; {
		n, err := body.Read(buffer)
		if f.Do == "cut" && passed+n >= f.Bytes {
			_, _ = w.Write(buffer[:f.Bytes-passed])
			_ = flush.Flush()
			panic(http.ErrAbortHandler)
		}
		passed += n
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return
		}
		_ = flush.Flush()
		if f.Do == "slow" {
			time.Sleep(5 * time.Millisecond)
		}
		if err != nil {
			if err != io.EOF {
				panic(http.ErrAbortHandler)
			}
			return
		}
	}
}
