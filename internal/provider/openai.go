package provider

import (
	"iter"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// openAI speaks like the API of OpenAI.
type openAI struct{}

func (openAI) route(method, path string) (action, string) {
	return route(method, path, "/v1/chat/completions")
}

// route knows the paths of the APIs that have models.
func route(method, path, call string) (action, string) {
	const list = "/v1/models"
	reads := method == http.MethodGet || method == http.MethodHead
	switch {
	case path == call && method == http.MethodPost:
		return chat, ""
	case path == call:
		return nothing, http.MethodPost
	case path != list && !strings.HasPrefix(path, list+"/"):
		return nothing, ""
	case !reads:
		return nothing, "GET, HEAD"
	case path == list:
		return listModels, ""
	}
	return showModel, ""
}

func (openAI) key(h http.Header) string { return bearer(h) }

// bearer returns the token of an Authorization header.
func bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

func (openAI) check(_ http.Header, r *chatRequest) *problem { return checkChat(r) }

func (openAI) limits(h http.Header, r readings) {
	openAILimit(h, "requests", &r.requests)
	if r.tokens != nil {
		openAILimit(h, "tokens", r.tokens)
	}
}

func openAILimit(h http.Header, unit string, r *reading) {
	h.Set("X-Ratelimit-Limit-"+unit, strconv.FormatInt(r.limit.N, 10))
	h.Set("X-Ratelimit-Remaining-"+unit, strconv.FormatInt(r.left, 10))
	h.Set("X-Ratelimit-Reset-"+unit, r.reset.Round(time.Millisecond).String())
}

func (openAI) later(h http.Header, wait time.Duration) {
	h.Set("Retry-After", strconv.FormatInt(ceil(wait), 10))
	h.Set("Retry-After-Ms", strconv.FormatInt(int64((wait+time.Millisecond-1)/time.Millisecond), 10))
}

func (openAI) number(h http.Header, id string) { h.Set("X-Request-Id", "req_"+id) }

func (openAI) refusal(p problem, _ string) any {
	class, code, param := "invalid_request_error", any(nil), any(nil)
	switch p.kind {
	case missingField:
		code, param = "missing_required_parameter", p.about
	case wrongKey:
		code = "invalid_api_key"
	case unknownModel:
		code = "model_not_found"
	case requestsUsedUp:
		class, code = "requests", "rate_limit_exceeded"
	case tokensUsedUp:
		class, code = "tokens", "rate_limit_exceeded"
	case failed:
		if p.status >= http.StatusInternalServerError {
			class = "server_error"
		}
	}
	return map[string]any{"error": map[string]any{"message": p.text(), "type": class, "param": param, "code": code}}
}

func (o openAI) models(ids []string) any {
	list := []any{}
	for _, id := range ids {
		list = append(list, o.model(id))
	}
	return map[string]any{"object": "list", "data": list}
}

func (openAI) model(id string) any {
	return map[string]any{"id": id, "object": "model", "created": 1_700_000_000, "owned_by": "penstock"}
}

func (c *chatCall) openAIUsage() map[string]any {
	return map[string]any{
		"prompt_tokens": c.prompt, "completion_tokens": c.completion, "total_tokens": c.prompt + c.completion,
	}
}

func (c *chatCall) openAIReason() string {
	if c.full {
		return "length"
	}
	return "stop"
}

func (openAI) reply(c *chatCall) any {
	return map[string]any{
		"id": "chatcmpl-" + c.id, "object": "chat.completion", "created": c.at.Unix(), "model": c.model,
		"choices": []any{map[string]any{
			"index": 0, "message": map[string]any{"role": "assistant", "content": words(c.completion), "refusal": nil},
			"finish_reason": c.openAIReason(), "logprobs": nil,
		}},
		"usage": c.openAIUsage(),
	}
}

func (openAI) events(c *chatCall) iter.Seq[event] {
	chunk := func(delta, reason any) map[string]any {
		return map[string]any{
			"id": "chatcmpl-" + c.id, "object": "chat.completion.chunk", "created": c.at.Unix(), "model": c.model,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": nil}},
		}
	}
	return func(yield func(event) bool) {
		if !yield(event{data: chunk(map[string]any{"role": "assistant", "content": ""}, nil)}) {
			return
		}
		for n := range slices.Values(split(c.completion)) {
			if !yield(event{data: chunk(map[string]any{"content": words(n)}, nil), tokens: n}) {
				return
			}
		}
		if !yield(event{data: chunk(map[string]any{}, c.openAIReason())}) {
			return
		}
		if c.usage {
			last := chunk(nil, nil)
			last["choices"], last["usage"] = []any{}, c.openAIUsage()
			if !yield(event{data: last}) {
				return
			}
		}
		yield(event{data: "[DONE]"})
	}
}
