// Package smssim simulates Twilio's message API for tests and demos. It takes and lists texts, refuses what the
// provider refuses, throttles, delays and loses answers.
//
// It promises to record every text that it takes with its time, and to handle test numbers like the provider (see
// Numbers). It never sends anything.
package smssim

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver/smstarget"
)

// Options of a Simulator. The zero value takes everything at once, from any caller that knows the account.
type Options struct {
	Account  string        // empty is DefaultAccount
	Token    string        // of the account; empty accepts any
	Interval time.Duration // between segments; 0 is no limit
	Burst    int           // segments that may come at once; 0 is 1
	// RetryAfter adds a Retry-After header to throttled answers; the provider sends none.
	RetryAfter bool
	Latency    time.Duration // before each answer
	// Listed is the delay until a text appears in the list.
	Listed time.Duration
	// Fault returns the fault of the nth request to send, from 1. If nil, Numbers decide.
	Fault func(n int) Fault
	// Log gets a line for each request to send. It may be nil.
	Log io.Writer
}

// DefaultAccount is the default account.
const DefaultAccount = "ACsimulator"

// Text is a text that was taken.
type Text struct {
	SID, To, From, Service, Body string
	Segments                     int
	At                           time.Time // of the request
}

// Simulator is an http.Handler. It is safe for use by many goroutines.
type Simulator struct {
	o   Options
	mux *http.ServeMux

	mu        sync.Mutex
	requests  int
	throttled int
	asked     int
	next      time.Time // when the next segment may come, at burst 1
	texts     []Text
}

// New returns a Simulator.
func New(o Options) *Simulator {
	if o.Account == "" {
		o.Account = DefaultAccount
	}
	s := &Simulator{o: o, mux: http.NewServeMux()}
	s.mux.HandleFunc("POST /2010-04-01/Accounts/{account}/Messages.json", s.send)
	s.mux.HandleFunc("GET /2010-04-01/Accounts/{account}/Messages.json", s.list)
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, 20404, "The requested resource "+r.URL.Path+" was not found")
	})
	return s
}

// ServeHTTP implements http.Handler.
func (s *Simulator) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Texts returns the texts that were taken, in order.
func (s *Simulator) Texts() []Text {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.texts)
}

// Counts returns the numbers of requests to send, of throttled ones, and of requests for the list.
func (s *Simulator) Counts() (requests, throttled, asked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.throttled, s.asked
}

func (s *Simulator) authenticate(w http.ResponseWriter, r *http.Request) bool {
	_, token, _ := r.BasicAuth()
	if r.PathValue("account") == s.o.Account && (s.o.Token == "" ||
		subtle.ConstantTimeCompare([]byte(token), []byte(s.o.Token)) == 1) {
		return true
	}
	refuse(w, http.StatusUnauthorized, 20003, "Authenticate")
	return false
}

func (s *Simulator) send(w http.ResponseWriter, r *http.Request) {
	at := time.Now()
	if !s.authenticate(w, r) {
		return
	}
	if err := r.ParseForm(); err != nil { // an incomplete body is refused
		refuse(w, http.StatusBadRequest, 20001, "The request cannot be read")
		return
	}
	if s.o.Latency > 0 {
		select {
		case <-time.After(s.o.Latency):
		case <-r.Context().Done(): // the text is taken anyway
		}
	}
	form := r.PostForm
	t := Text{
		To: form.Get("To"), From: form.Get("From"), Service: form.Get("MessagingServiceSid"), Body: form.Get("Body"), At: at,
	}
	t.Segments, _ = smstarget.Segments(t.Body)
	fault := s.fault(&t)
	s.log(&t, fault)
	if fault == LoseRequest {
		hangUp()
		return
	}
	if code, status, text := s.check(&t, fault); code != 0 {
		if status == http.StatusTooManyRequests && s.o.RetryAfter {
			w.Header().Set("Retry-After", "1")
		}
		refuse(w, status, code, text)
		return
	}
	if fault >= BadGateway {
		http.Error(w, http.StatusText(int(fault)), int(fault))
		return
	}
	t.SID = s.take(t)
	if fault == LoseAnswer {
		hangUp()
		return
	}
	answer(w, http.StatusCreated, s.shown(&t))
}

func (s *Simulator) fault(t *Text) Fault {
	s.mu.Lock()
	s.requests++
	n := s.requests
	s.mu.Unlock()
	if s.o.Fault != nil {
		if f := s.o.Fault(n); f != None {
			return f
		}
	}
	return Numbers[t.To]
}

func (s *Simulator) log(t *Text, f Fault) {
	if s.o.Log == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.o.Log, "%s  %d segments to %s%s\n", t.At.Format("15:04:05.000"), t.Segments, t.To, f)
}

// pace reports whether segments may come now.
func (s *Simulator) pace(segments int) bool {
	if s.o.Interval == 0 {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.next.Sub(now) > time.Duration(max(s.o.Burst, 1)-1)*s.o.Interval {
		s.throttled++
		return false
	}
	if s.next.Before(now) {
		s.next = now
	}
	s.next = s.next.Add(time.Duration(segments) * s.o.Interval)
	return true
}

func (s *Simulator) take(t Text) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.SID = fmt.Sprintf("SM%032d", len(s.texts)+1)
	s.texts = append(s.texts, t)
	return t.SID
}

func (s *Simulator) shown(t *Text) map[string]any {
	shown := map[string]any{
		"sid": t.SID, "account_sid": s.o.Account, "to": t.To, "from": nil, "messaging_service_sid": nil, "body": t.Body,
		"status":       "queued",
		"num_segments": strconv.Itoa(t.Segments), "direction": "outbound-api",
		"date_created": t.At.UTC().Format(time.RFC1123Z), "date_sent": nil,
		"error_code": nil, "error_message": nil, "api_version": "2010-04-01",
	}
	if t.From != "" {
		shown["from"] = t.From
	}
	if t.Service != "" {
		shown["messaging_service_sid"] = t.Service
	}
	return shown
}

// list lists texts, newest first.
func (s *Simulator) list(w http.ResponseWriter, r *http.Request) {
	if !s.authenticate(w, r) {
		return
	}
	size, err := strconv.Atoi(r.FormValue("PageSize"))
	if err != nil || size < 1 || size > 1000 {
		size = 50
	}
	s.mu.Lock()
	s.asked++
	s.mu.Unlock()
	listed, more := []map[string]any{}, any(nil)
	now := time.Now()
	for _, t := range slices.Backward(s.Texts()) {
		if to := r.FormValue("To"); to != "" && to != t.To || now.Sub(t.At) < s.o.Listed {
			continue
		}
		if len(listed) == size {
			more = r.URL.Path + "?Page=1"
			break
		}
		listed = append(listed, s.shown(&t))
	}
	answer(w, http.StatusOK, map[string]any{"messages": listed, "page": 0, "page_size": size, "next_page_uri": more})
}

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may be gone
}

func refuse(w http.ResponseWriter, status, code int, text string) {
	answer(w, status, map[string]any{
		"code": code, "message": text, "status": status,
		"more_info": "https://www.twilio.com/docs/errors/" + strconv.Itoa(code),
	})
}

// hangUp closes the connection without an answer.
func hangUp() {
	panic(http.ErrAbortHandler) // see net/http
}
