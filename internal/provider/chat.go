package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// chatRequest is what matters in the body of a call, for all providers.
type chatRequest struct {
	Model     string            `json:"model"`
	Messages  []json.RawMessage `json:"messages"`
	System    json.RawMessage   `json:"system"`
	Stream    bool              `json:"stream"`
	MaxTokens *int64            `json:"max_tokens"`
	// MaxCompletionTokens is OpenAI's newer name of MaxTokens.
	MaxCompletionTokens *int64 `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
}

// chatCall is a call that was admitted.
type chatCall struct {
	id                 string
	at                 time.Time
	model              string
	prompt, completion int64 // tokens
	full               bool  // the answer was cut at the maximum that the caller asked for
	usage              bool  // a stream ends with the usage
}

// charactersPerToken is OpenAI's rule of thumb.
const charactersPerToken = 4

// call charges a call, and answers it.
func (s *Simulator) call(w http.ResponseWriter, r *http.Request, a *account, do action) {
	s.mu.Lock()
	now := time.Now()
	p, wait := a.admit(now)
	drawn := int64(0)
	if p == nil && do == chat {
		drawn = s.costs.draw()
	}
	s.d.limits(w.Header(), a.read(now))
	s.mu.Unlock()
	if p != nil {
		s.d.later(w.Header(), wait)
		s.refuse(w, *p)
		return
	}
	if do == anything {
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, MaxBody)) // the answer is the same
		s.answer(w, map[string]any{"ok": true, "method": r.Method, "path": r.URL.Path})
		return
	}
	request, p := readChat(r)
	if p == nil {
		p = s.d.check(r.Header, request)
	}
	if p != nil {
		s.refuse(w, *p)
		return
	}
	c := s.newCall(request, drawn)
	if request.Stream {
		s.stream(r.Context(), w, a, c)
		return
	}
	s.produce(w, a, c.prompt+c.completion)
	s.d.number(w.Header(), c.id)
	s.answer(w, s.d.reply(c))
}

// readChat parses a body.
func readChat(r *http.Request) (*chatRequest, *problem) {
	text, err := io.ReadAll(io.LimitReader(r.Body, MaxBody+1))
	if err != nil {
		return nil, &problem{http.StatusBadRequest, badJSON, "it ended too early"}
	}
	if len(text) > MaxBody {
		return nil, &problem{
			http.StatusRequestEntityTooLarge, tooLarge, "the limit is " + strconv.Itoa(MaxBody) + " bytes",
		}
	}
	request := &chatRequest{}
	if err := json.Unmarshal(text, request); err != nil {
		return nil, &problem{http.StatusBadRequest, badJSON, err.Error()}
	}
	return request, nil
}

// newCall returns the call of a request, whose cost is drawn.
func (s *Simulator) newCall(r *chatRequest, drawn int64) *chatCall {
	s.mu.Lock()
	s.next++
	id := s.next
	s.mu.Unlock()
	c := &chatCall{
		id: fmt.Sprintf("%024d", id), at: time.Now(), model: r.Model, prompt: r.promptTokens(),
		usage: r.StreamOptions.IncludeUsage,
	}
	c.completion = max(1, drawn-c.prompt)
	if most := r.mostTokens(); most > 0 && c.completion > most {
		c.completion, c.full = most, true
	}
	return c
}

// promptTokens estimates the tokens of the prompt.
func (r *chatRequest) promptTokens() int64 {
	n := len(r.System)
	for _, m := range r.Messages {
		n += len(m)
	}
	return int64(n/charactersPerToken) + 1
}

// mostTokens returns the maximum number of tokens that the caller wants, or 0.
func (r *chatRequest) mostTokens() int64 {
	for _, most := range []*int64{r.MaxCompletionTokens, r.MaxTokens} {
		if most != nil {
			return *most
		}
	}
	return 0
}

// checkChat checks what all providers require.
func checkChat(r *chatRequest) *problem {
	switch {
	case r.Model == "":
		return &problem{http.StatusBadRequest, missingField, "model"}
	case len(r.Messages) == 0:
		return &problem{http.StatusBadRequest, missingField, "messages"}
	case !slices.Contains(models, r.Model):
		return &problem{http.StatusNotFound, unknownModel, clipped(r.Model)}
	}
	for _, most := range []*int64{r.MaxCompletionTokens, r.MaxTokens} {
		if most != nil && *most < 1 {
			return &problem{http.StatusBadRequest, badValue, "max_tokens is below 1"}
		}
	}
	return nil
}

// clipped returns the beginning of a text that a caller sent.
func clipped(text string) string {
	const most = 100
	if len(text) > most {
		text = text[:most] + "..."
	}
	return strings.ToValidUTF8(text, "?")
}

// produce charges tokens to an account, and sets the headers about its budgets.
func (s *Simulator) produce(w http.ResponseWriter, a *account, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	a.produce(now, n)
	s.d.limits(w.Header(), a.read(now))
}

// stream sends the answer of a call in pieces, and charges each piece when it is due. If the caller leaves, the rest is
// neither sent nor charged.
func (s *Simulator) stream(ctx context.Context, w http.ResponseWriter, a *account, c *chatCall) {
	s.produce(w, a, c.prompt)
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	s.d.number(h, c.id)
	s.count(http.StatusOK)
	w.WriteHeader(http.StatusOK)
	flusher := http.NewResponseController(w)
	pause := s.o.StreamFor / pieces
	whole := true
	for e := range s.d.events(c) {
		if e.tokens > 0 {
			if !sleep(ctx, pause) {
				whole = false
				break
			}
			s.mu.Lock()
			a.produce(time.Now(), e.tokens)
			s.mu.Unlock()
		}
		if err := e.write(w); err != nil || flusher.Flush() != nil {
			whole = false
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.streams++
	if !whole {
		s.cut++
	}
}

// write sends an event.
func (e *event) write(w io.Writer) error {
	text, ready := e.data.(string)
	if !ready {
		b, err := json.Marshal(e.data)
		if err != nil {
			return err
		}
		text = string(b)
	}
	if e.name != "" {
		text = "event: " + e.name + "\ndata: " + text
	} else {
		text = "data: " + text
	}
	_, err := io.WriteString(w, text+"\n\n")
	return err
}

func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// pieces is the maximum number of pieces of a streamed answer.
const pieces = 20

// split returns the numbers of tokens of the pieces of an answer.
func split(tokens int64) []int64 {
	n := min(tokens, pieces)
	parts := make([]int64, n)
	for i := range parts {
		parts[i] = tokens / n
		if int64(i) < tokens%n {
			parts[i]++
		}
	}
	return parts
}

// words returns a text of a number of tokens.
func words(tokens int64) string { return strings.Repeat("flow ", int(tokens)) }
