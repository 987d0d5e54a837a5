package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// answer sends a body with status 200.
func (s *Simulator) answer(w http.ResponseWriter, body any) {
	s.count(http.StatusOK)
	send(w, http.StatusOK, body)
}

// refuse sends an error in the provider's form.
func (s *Simulator) refuse(w http.ResponseWriter, p problem) {
	s.mu.Lock()
	s.next++
	id := fmt.Sprintf("%024d", s.next)
	s.mu.Unlock()
	s.count(p.status)
	s.d.number(w.Header(), id)
	send(w, p.status, s.d.refusal(p, id))
}

// count counts an answer by its status.
func (s *Simulator) count(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.statuses[strconv.Itoa(status)]++
}

func send(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil { // unreachable: bodies are maps of texts and numbers
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // the client may be gone
}

func (s *Simulator) showModel(w http.ResponseWriter, path string) {
	id := path[strings.LastIndexByte(path, '/')+1:]
	if !slices.Contains(models, id) {
		s.refuse(w, problem{http.StatusNotFound, unknownModel, clipped(id)})
		return
	}
	s.answer(w, s.d.model(id))
}

func (s *Simulator) serveStats(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	send(w, http.StatusOK, s.Stats())
}

// Stats are the figures of a Simulator.
type Stats struct {
	Provider string           `json:"provider"`
	Statuses map[string]int64 `json:"statuses"` // number of answers by status
	Streams  int64            `json:"streams"`
	Cut      int64            `json:"cut"` // streams whose caller left
	// Accounts are sorted by key. Only the end of a key is shown.
	Accounts []Account `json:"accounts"`
}

// Account is the figures of an API key.
type Account struct {
	Key       string `json:"key"`
	Calls     int64  `json:"calls"`     // with this key, whether admitted or not
	Throttled int64  `json:"throttled"` // calls that got 429
	// Slack is what the window law needs for all calls to hold at the limit of requests, with a burst of 1.
	Slack    time.Duration `json:"slack_ns"`
	For      time.Duration `json:"for_ns"` // from the first call to the last, and one interval
	Requests Budget        `json:"requests"`
	Tokens   Budget        `json:"tokens"`
}

// Budget is the use of a budget.
type Budget struct {
	Limit   Limit `json:"limit"`
	Charged int64 `json:"charged"`
	// Used is the share of what the limit allows from the first call to the last. It is 0 without a limit. The size of a
	// bucket comes on top of that, so a short run may have more than 1.
	Used float64 `json:"used"`
	Most int64   `json:"most"` // in any period of the limit; without a limit, in any minute
}

// Stats returns the figures so far.
func (s *Simulator) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := Stats{
		Provider: s.o.Provider, Statuses: map[string]int64{}, Streams: s.streams, Cut: s.cut, Accounts: []Account{},
	}
	for status, n := range s.statuses {
		st.Statuses[status] = n
	}
	keys := make([]string, 0, len(s.accounts))
	for key := range s.accounts {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if a := s.accounts[key]; a.calls > 0 {
			st.Accounts = append(st.Accounts, a.stats(key))
		}
	}
	return st
}

func (a *account) stats(key string) Account {
	st := Account{
		Key: ending(key), Calls: a.calls, Throttled: a.throttled, Slack: a.law.slack,
		For:      a.last.Sub(a.first) + a.limits[0].interval(),
		Requests: Budget{Limit: a.limits[0], Charged: a.charged, Most: a.mostCalls.most},
		Tokens:   Budget{Limit: a.limits[1], Charged: a.produced, Most: a.mostTokens.most},
	}
	st.Requests.use(st.For)
	st.Tokens.use(st.For)
	return st
}

func (b *Budget) use(d time.Duration) {
	if b.Limit.N > 0 {
		b.Used = float64(b.Charged) / b.Limit.per(d)
	}
}
