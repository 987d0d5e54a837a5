package provider

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// anthropic speaks like the API of Anthropic.
type anthropic struct{}

const statusOverloaded = 529

func (anthropic) route(method, path string) (action, string) {
	return route(method, path, "/v1/messages")
}

// key accepts both headers: the API's own, and the one that the provider's libraries send.
func (anthropic) key(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

func (anthropic) check(h http.Header, r *chatRequest) *problem {
	switch {
	case h.Get("Anthropic-Version") == "":
		return &problem{http.StatusBadRequest, missingField, "anthropic-version"}
	case r.MaxTokens == nil:
		return &problem{http.StatusBadRequest, missingField, "max_tokens"}
	}
	return checkChat(r)
}

func (anthropic) limits(h http.Header, r readings) {
	anthropicLimit(h, "Requests", r.now, &r.requests)
	if r.tokens != nil {
		anthropicLimit(h, "Tokens", r.now, r.tokens)
	}
}

func anthropicLimit(h http.Header, unit string, now time.Time, r *reading) {
	h.Set("Anthropic-Ratelimit-"+unit+"-Limit", strconv.FormatInt(r.limit.N, 10))
	h.Set("Anthropic-Ratelimit-"+unit+"-Remaining", strconv.FormatInt(r.left, 10))
	// The header has whole seconds. Rounded up, it never promises too much.
	at := now.Add(r.reset + time.Second - 1).UTC().Truncate(time.Second)
	h.Set("Anthropic-Ratelimit-"+unit+"-Reset", at.Format(time.RFC3339))
}

func (anthropic) later(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(ceil(wait), 10))
}

func (anthropic) number(h http.Header, id string) { h.Set("Request-Id", "req_"+id) }

func (anthropic) refusal(p problem, id string) any {
	class := map[int]string{
		http.StatusUnauthorized: "authentication_error", http.StatusForbidden: "permission_error",
		http.StatusNotFound: "not_found_error", http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests: "rate_limit_error", statusOverloaded: "overloaded_error",
	}[p.status]
	switch {
	case class != "":
	case p.status >= http.StatusInternalServerError:
		class = "api_error"
	default:
		class = "invalid_request_error"
	}
	return map[string]any{
		"type": "error", "error": map[string]any{"type": class, "message": p.text()}, "request_id": "req_" + id,
	}
}

func (a anthropic) models(ids []string) any {
	list := []any{}
	for _, id := range ids {
		list = append(list, a.model(id))
	}
	return map[string]any{"data": list, "has_more": false, "first_id": ids[0], "last_id": ids[len(ids)-1]}
}

func (anthropic) model(id string) any {
	return map[string]any{"type": "model", "id": id, "display_name": id, "created_at": "2026-01-01T00:00:00Z"}
}

func (c *chatCall) anthropicReason() string {
	if c.full {
		return "max_tokens"
	}
	return "end_turn"
}

// message returns the answer with its content, or the beginning of a streamed answer.
func (c *chatCall) message(content []any, reason any, output int64) map[string]any {
	return map[string]any{
		"id": "msg_" + c.id, "type": "message", "role": "assistant", "model": c.model, "content": content,
		"stop_reason": reason, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": c.prompt, "output_tokens": output},
	}
}

func (anthropic) reply(c *chatCall) any {
	content := []any{map[string]any{"type": "text", "text": words(c.completion)}}
	return c.message(content, c.anthropicReason(), c.completion)
}

func (anthropic) events(c *chatCall) iter.Seq[event] {
	of := func(name string, tokens int64, fields map[string]any) event {
		fields["type"] = name
		return event{name: name, data: fields, tokens: tokens}
	}
	return func(yield func(event) bool) {
		begin := []event{
			of("message_start", 0, map[string]any{"message": c.message([]any{}, nil, 1)}),
			of("content_block_start", 0, map[string]any{
				"index": 0, "content_block": map[string]any{"type": "text", "text": ""},
			}),
			of("ping", 0, map[string]any{}),
		}
		for _, e := range begin {
			if !yield(e) {
				return
			}
		}
		for n := range slices.Values(split(c.completion)) {
			delta := map[string]any{"type": "text_delta", "text": words(n)}
			if !yield(of("content_block_delta", n, map[string]any{"index": 0, "delta": delta})) {
				return
			}
		}
		end := []event{
			of("content_block_stop", 0, map[string]any{"index": 0}),
			of("message_delta", 0, map[string]any{
				"delta": map[string]any{"stop_reason": c.anthropicReason(), "stop_sequence": nil},
				"usage": map[string]any{"output_tokens": c.completion},
			}),
			of("message_stop", 0, map[string]any{}),
		}
		for _, e := range end {
			if !yield(e) {
				return
			}
		}
	}
}
