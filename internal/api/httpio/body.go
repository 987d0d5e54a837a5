package httpio

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/penstock/penstock/internal/ops"
)

// Media types of bodies.
const (
	MediaJSON   = "application/json"
	MediaNDJSON = "application/x-ndjson"
	MediaLog    = "application/octet-stream"
)

// otherNames are further names of MediaNDJSON.
var otherNames = map[string]string{"application/ndjson": MediaNDJSON, "application/jsonl": MediaNDJSON}

// MediaType returns the media type of a body: MediaJSON, MediaNDJSON, or "" for a request with neither body nor type.
// Everything else is refused. Browsers let any web page send text, forms or bodies without a type, but ask the server
// first before they send JSON. The common spellings allocate nothing.
func MediaType(r *http.Request) (string, *Problem) {
	const send = "send application/json for one object, application/x-ndjson for many jobs"
	values := r.Header["Content-Type"]
	switch missing := len(values) == 0 || len(values) == 1 && values[0] == ""; {
	case missing && r.ContentLength == 0:
		return "", nil
	case missing:
		return "", BadMedia("is missing, although there is a body; " + send)
	case len(values) > 1:
		return "", BadMedia("is given more than once; " + send)
	}
	switch values[0] {
	case MediaJSON, MediaNDJSON:
		return values[0], nil
	}
	t, parameters, err := mime.ParseMediaType(values[0])
	if other, ok := otherNames[t]; ok {
		t = other
	}
	if err != nil || t != MediaJSON && t != MediaNDJSON {
		return "", BadMedia(Shorten(values[0]) + " is not supported; " + send)
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", BadMedia("charset " + Shorten(charset) + " is not supported; JSON is UTF-8")
	}
	return t, nil
}

// BadMedia returns the problem for an unsupported Content-Type.
func BadMedia(detail string) *Problem {
	return &Problem{Reason: ReasonMediaType, Field: "Content-Type", Detail: detail}
}

// RequireJSON refuses a body that is not declared as one JSON value.
func RequireJSON(r *http.Request) *Problem {
	t, p := MediaType(r)
	if p == nil && t == MediaNDJSON {
		p = BadMedia(t + " is not supported here; send application/json")
	}
	return p
}

// RequirePlain refuses a body with a content encoding. what names the content, as in "the body".
func RequirePlain(r *http.Request, what string) *Problem {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return &Problem{
			Reason: ReasonMediaType,
			Detail: "content encoding " + Shorten(enc) + " is not supported; send " + what + " uncompressed",
		}
	}
	return nil
}

// ReadBody reads a whole body into buf. The buffer grows with the bytes that arrive and not with the declared
// Content-Length, so a declaration alone costs nothing. Bytes beyond FreeBody are charged to the account. The caller
// frees the charge when it is done with the body.
func ReadBody(r *http.Request, account *ops.Account, buf []byte, limit int) (body []byte, charged Charge, p *Problem) {
	if r.ContentLength > int64(limit) {
		return buf, charged, TooLarge("", "the body", int64(limit))
	}
	if p := RequirePlain(r, "the body"); p != nil {
		return buf, charged, p
	}
	charged.account = account
	buf = buf[:0]
	for {
		if len(buf) == cap(buf) {
			size := min(max(4096, 2*cap(buf)), limit+bytes.MinRead)
			if size > FreeBody {
				if p := charged.Grow(size); p != nil {
					return buf, charged, p
				}
			}
			buf = append(make([]byte, 0, size), buf...)
		}
		n, err := r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if len(buf) > limit {
			return buf, charged, TooLarge("", "the body", int64(limit))
		}
		if err == io.EOF {
			return buf, charged, nil
		}
		if err != nil {
			return buf, charged, BodyProblem(err)
		}
	}
}

// BodyProblem returns the problem for an error of reading a body.
func BodyProblem(err error) *Problem {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return &Problem{Reason: ReasonBodyTimeout, Detail: "the body did not arrive in time"}
	}
	return &Problem{Reason: ReasonBodyBroken, Detail: "the body ended before it was complete"}
}

// ReadJSON reads a JSON body of at most limit bytes into v. An empty body leaves v unchanged.
func ReadJSON(r *http.Request, account *ops.Account, limit int, v any) *Problem {
	if p := RequireJSON(r); p != nil {
		return p
	}
	body, charged, p := ReadBody(r, account, nil, limit)
	defer charged.Free()
	if p != nil || len(body) == 0 {
		return p
	}
	return Decode(body, v)
}

// LeaveUnread prepares the refusal of a request whose body is not read. Otherwise the server would read on before it
// sends the answer, for as long as a stream lasts.
func LeaveUnread(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 1 && r.ContentLength < 0 {
		_ = http.NewResponseController(w).EnableFullDuplex() // on an error the answer only comes later
		w.Header()["Connection"] = Closing
	}
}
