// Command gohttp calls OpenAI's API with Go's net/http. Usage: gohttp [CALLS [whole|stream|mixed]]
//
// The base URL and the key are in OPENAI_BASE_URL and OPENAI_API_KEY. Nothing here knows Penstock. Since net/http has
// no retries, this program tries again after Retry-After, as users write it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// line is the report about a call.
type line struct {
	Stream   bool   `json:"stream"`
	Statuses []int  `json:"statuses"`
	Pieces   int    `json:"pieces"`
	Tokens   int    `json:"tokens"`
	Error    string `json:"error,omitempty"`
	Message  string `json:"message,omitempty"`
	Status   int    `json:"status,omitempty"`
	MS       int64  `json:"ms"`
}

// value is an answer, or a chunk of one.
type value struct {
	Choices []struct {
		Message, Delta struct{ Content string }
	}
	Usage struct {
		TotalTokens int `json:"total_tokens"`
	}
}

func main() {
	calls, mode := 3, "mixed"
	if len(os.Args) > 1 {
		calls, _ = strconv.Atoi(os.Args[1])
	}
	if len(os.Args) > 2 {
		mode = os.Args[2]
	}
	for n := 0; calls == 0 || n < calls; n++ {
		l := line{Stream: mode == "stream" || mode == "mixed" && n%2 == 1, Statuses: []int{}}
		began := time.Now()
		if err := l.call(context.Background()); err != nil {
			l.Error, l.Message = fmt.Sprintf("%T", err), err.Error()
		}
		l.MS = time.Since(began).Milliseconds()
		text, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		fmt.Println(string(text))
	}
}

// call makes a call, and tries again after 429 and 503.
func (l *line) call(ctx context.Context) error {
	retries := 2
	if text := os.Getenv("MAX_RETRIES"); text != "" {
		retries, _ = strconv.Atoi(text)
	}
	for ; ; retries-- {
		resp, err := l.send(ctx)
		if err != nil {
			return err
		}
		l.Statuses = append(l.Statuses, resp.StatusCode)
		if resp.StatusCode == http.StatusOK {
			defer func() { _ = resp.Body.Close() }()
			return l.read(resp.Body)
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 1000))
		_ = resp.Body.Close()
		again := resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable
		if !again || retries == 0 {
			l.Status = resp.StatusCode
			return fmt.Errorf("%s: %s", resp.Status, body)
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil {
			seconds = 1
		}
		time.Sleep(time.Duration(seconds) * time.Second)
	}
}

func (l *line) send(ctx context.Context) (*http.Response, error) {
	body := map[string]any{
		"model": "sim-small", "messages": []any{map[string]string{"role": "user", "content": "hello"}},
		"max_completion_tokens": 500, "stream": l.Stream,
	}
	if l.Stream {
		body["stream_options"] = map[string]bool{"include_usage": true}
	}
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, os.Getenv("OPENAI_BASE_URL")+"/chat/completions", strings.NewReader(string(text)),
	)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+os.Getenv("OPENAI_API_KEY"))
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

func (l *line) read(body io.Reader) error {
	if !l.Stream {
		var v value
		if err := json.NewDecoder(body).Decode(&v); err != nil {
			return err
		}
		l.Pieces, l.Tokens = len(v.Choices), v.Usage.TotalTokens
		return nil
	}
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var v value
		if err := json.Unmarshal([]byte(data), &v); err != nil {
			return err
		}
		for _, c := range v.Choices {
			if c.Delta.Content != "" {
				l.Pieces++
			}
		}
		l.Tokens = max(l.Tokens, v.Usage.TotalTokens)
	}
	return lines.Err()
}
