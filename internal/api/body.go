package api

import (
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"
)

// freeBody is how much of a body is read without asking the memory budget.
const freeBody = 64 << 10

// readBody reads a whole body into buf. The buffer grows as bytes arrive and not
// as Content-Length promises, so that a promise costs nothing; beyond freeBody
// it is charged to the budget. The caller gives charged back when it is done
// with the body.
func (h *handler) readBody(r *http.Request, buf []byte, limit int) (body []byte, charged int64, p *Problem) {
	if r.ContentLength > int64(limit) {
		return buf, 0, tooLarge("", "the body", int64(limit))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return buf, 0, &Problem{Reason: ReasonMediaType, Detail: "content encoding " + shorten(enc) + " is not supported; send the body as it is"}
	}
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := max(4096, 2*cap(buf))
			if size > freeBody {
				if !h.memory.take(int64(size) - charged) {
					return buf, charged, &Problem{Reason: ReasonOverloaded, RetryAfter: retryOverloaded, Detail: "too many large bodies are arriving at once"}
				}
				charged = int64(size)
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return buf, charged, tooLarge("", "the body", int64(limit))
		}
		if err == io.EOF {
			return buf, charged, nil
		}
		if err != nil {
			return buf, charged, bodyProblem(err)
		}
	}
}

// bodyProblem says why a body did not arrive whole.
func bodyProblem(err error) *Problem {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &Problem{Reason: ReasonBodyTimeout, Detail: "the body did not arrive in time"}
	}
	return &Problem{Reason: ReasonBodyBroken, Detail: "the body ended before it was complete"}
}

// mediaType returns the media type of a request, lower-cased and without its
// parameters. The usual ones cost nothing.
func mediaType(r *http.Request) string {
	values := r.Header["Content-Type"]
	if len(values) == 0 {
		return ""
	}
	switch values[0] {
	case "application/json", "application/x-ndjson":
		return values[0]
	}
	t, _, err := mime.ParseMediaType(values[0])
	if err != nil {
		return strings.ToLower(shorten(values[0]))
	}
	return t
}

// requireJSON refuses a body that says it is something else.
func requireJSON(r *http.Request) *Problem {
	switch t := mediaType(r); t {
	case "", "application/json":
		return nil
	default:
		return &Problem{Reason: ReasonMediaType, Detail: "content type " + t + " is not supported here; send application/json"}
	}
}
