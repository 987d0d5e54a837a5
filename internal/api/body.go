package api

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock/penstock/internal/jsondepth"
)

// readBody reads a whole body into buf. The buffer grows as bytes arrive and not
// as Content-Length promises, so that a promise costs nothing; beyond freeBody
// it is charged to the client. The caller frees that when it is done with the
// body.
func (h *handler) readBody(r *http.Request, buf []byte, limit int) (body []byte, charged charge, p *Problem) {
	if r.ContentLength > int64(limit) {
		return buf, charged, tooLarge("", "the body", int64(limit))
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return buf, charged, &Problem{
			Reason: ReasonMediaType, Detail: "content encoding " + shorten(enc) + " is not supported; send the body as it is",
		}
	}
	charged.account = h.account(r)
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := min(max(4096, 2*cap(buf)), limit+bytes.MinRead)
			if size > freeBody {
				if p := charged.grow(size); p != nil {
					return buf, charged, p
				}
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

// readJSON reads a small body into v; none at all leaves it as it is.
func (h *handler) readJSON(r *http.Request, limit int, v any) *Problem {
	if p := requireJSON(r); p != nil {
		return p
	}
	body, charged, p := h.readBody(r, nil, limit)
	defer charged.free()
	if p != nil || len(body) == 0 {
		return p
	}
	return decode(body, v)
}

// decode reads a JSON object into v, which has no other fields. What is null says nothing, and would be taken for an
// object that says nothing, and done.
func decode(text []byte, v any, options ...json.Options) *Problem {
	var deep *jsondepth.Error
	if errors.As(jsondepth.Check(text, jsondepth.Max), &deep) {
		return &Problem{Reason: ReasonInvalidJSON, Field: deep.Field, Detail: deep.Error()}
	}
	if err := json.Unmarshal(text, v, json.RejectUnknownMembers(true), json.JoinOptions(options...)); err != nil {
		return refusedJSON(err)
	}
	if jsontext.Value(text).Kind() == 'n' {
		return &Problem{
			Reason: ReasonInvalidJSON, Detail: "is null, must be an object; leave the body out if there is nothing to say",
		}
	}
	return nil
}
