package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"time"
)

// perConnection are the fields that concern one connection (RFC 9110, 7.6.1, and older practice).
var perConnection = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Http2-Settings",
}

// ofOrigin are the fields of answers by which browsers change what they do with the origin, which here is the ingress.
var ofOrigin = []string{
	"Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed",
}

// ownPrefix begins the names of the fields by which callers talk to Penstock.
const ownPrefix = "Penstock-"

const (
	// HeaderWaited is how long a call waited for its turn, in milliseconds.
	HeaderWaited = "Penstock-Waited"
	// HeaderAuthorization has the caller's token if Authorization is for the receiver.
	HeaderAuthorization = "Penstock-Authorization"

	headerVia    = "Via"
	headerTiming = "Server-Timing"
	via          = "1.1 penstock-"
)

// requestHeaders returns what the receiver gets of a caller's headers.
func requestHeaders(r *http.Request, mark string, passAuthorization bool) http.Header {
	h := r.Header.Clone()
	dropPerConnection(h)
	dropOwn(h)
	drop(h, "Host", "Content-Length")
	drop(h, "Expect", "Cookie") // the server has asked for the body; cookies are of the ingress
	if !passAuthorization {
		drop(h, "Authorization", "X-Api-Key")
	}
	h.Add(headerVia, mark)
	if _, ok := h["User-Agent"]; !ok {
		h.Set("User-Agent", "Penstock")
	}
	return h
}

func drop(h http.Header, names ...string) {
	for _, name := range names {
		h.Del(name)
	}
}

// dropOwn removes the fields by which callers talk to Penstock.
func dropOwn(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, ownPrefix) {
			delete(h, name)
		}
	}
}

// dropPerConnection removes the fields that concern one connection.
func dropPerConnection(h http.Header) {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	drop(h, perConnection...)
}

// markOf returns what Via says of a call that passed through a queue: a hash of the queue's name and its target's URL.
// So a deployment may pass calls on to another whose queue has the same name, and receivers do not see the name.
func markOf(queue, url string) string {
	sum := sha256.Sum256([]byte(queue + "\n" + url))
	return via + hex.EncodeToString(sum[:6])
}

// loops reports whether a call has a mark already.
func loops(r *http.Request, mark string) bool {
	for _, value := range r.Header[headerVia] {
		for hop := range strings.SplitSeq(value, ",") {
			if strings.TrimSpace(hop) == mark {
				return true
			}
		}
	}
	return false
}

// trailers returns the fields behind a body that may be passed on.
func trailers(h http.Header) http.Header {
	h = h.Clone()
	dropPerConnection(h)
	dropOwn(h)
	drop(h, "Content-Length", "Host", "Authorization", "Content-Type", "Content-Encoding")
	drop(h, ofOrigin...)
	return h
}

const (
	// chunk is the size of the parts in which answers are passed on.
	chunk = 32 << 10
	// writeWithin is how long the caller may take to read a part.
	writeWithin = 30 * time.Second
)

var buffers = sync.Pool{New: func() any { return new([chunk]byte) }}

// answer writes an answer. Each part is passed on when it comes.
func (r *run) answer(answer *http.Response) error {
	h := r.w.Header()
	dropPerConnection(answer.Header)
	drop(answer.Header, ofOrigin...)
	maps.Copy(h, answer.Header)
	h.Set(HeaderWaited, strconv.FormatInt(r.waited.Milliseconds(), 10))
	h.Add(headerTiming, "penstock;dur="+strconv.FormatFloat(float64(r.waited)/float64(time.Millisecond), 'f', 1, 64))
	h.Add("Content-Security-Policy", "sandbox") // a page of the receiver must not act as a page of the console
	announced := trailers(answer.Trailer)
	for name := range announced {
		h.Add("Trailer", name)
	}
	rc := http.NewResponseController(r.w)
	_ = rc.SetWriteDeadline(time.Now().Add(writeWithin))
	r.w.WriteHeader(answer.StatusCode)
	if answer.ContentLength < 0 && answer.Body != http.NoBody { // the first event of a stream may be long in coming
		if err := rc.Flush(); err != nil {
			return err
		}
	}
	if err := r.copy(rc, answer.Body); err != nil {
		return err
	}
	for name := range announced {
		h[name] = answer.Trailer[name]
	}
	return nil
}

// copy passes a body on. In HTTP/2, a write deadline ends the stream when it passes, so there is none while the
// receiver is silent.
func (r *run) copy(rc *http.ResponseController, body io.Reader) error {
	b := buffers.Get().(*[chunk]byte)
	defer buffers.Put(b)
	defer func() { _ = rc.SetWriteDeadline(time.Now().Add(writeWithin)) }() // for the end of the answer
	for {
		_ = rc.SetWriteDeadline(time.Time{})
		n, err := body.Read(b[:])
		if n > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(writeWithin))
			if _, err := r.w.Write(b[:n]); err != nil {
				return err
			}
			if err := rc.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
