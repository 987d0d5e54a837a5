package httptarget

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/drain"
)

// Forward is a caller's request to a target.
type Forward struct {
	Queue  string
	Method string
	Path   string // what follows the target's URL: escaped, and empty or beginning with a slash
	Query  string // escaped
	// Header returns the fields to send, which must not concern the connection. The target's own fields replace them. It
	// is called once the turn has come: many callers wait, and should take little memory.
	Header func() http.Header
	Body   io.Reader // nil without a body
	Length int64     // of the body; -1 if it is unknown
	// Trailer returns the fields behind a body of unknown length; nil means none.
	Trailer func() http.Header
	// Abort makes a blocked read of Body return.
	Abort func()
	Turn  Turn
	// Deadline is when to give up if there is no connection.
	Deadline time.Time
	// Spare is how many unused connections to have ready for the next requests.
	Spare int
	// Below is the path under which callers see the target's URL. A Location below the target's URL leads there.
	Below string
}

// Turn lets a request start.
type Turn interface {
	// Come waits until the request may start, and returns until when.
	Come(ctx context.Context) (latest time.Time, err error)
	// Miss says that the request was too late for its turn. Come waits for another. If Forward then returns without having
	// sent anything although a turn came, the receiver could not be reached.
	Miss()
}

// FailedForward is the error of a Forward that got no answer.
type FailedForward struct {
	Err  error
	Sent bool // the receiver may have got some of the request
}

func (f *FailedForward) Error() string { return f.Err.Error() }
func (f *FailedForward) Unwrap() error { return f.Err }

// Timeout reports whether the receiver took too long.
func (f *FailedForward) Timeout() bool {
	var timeout interface{ Timeout() bool }
	return errors.As(f.Err, &timeout) && timeout.Timeout()
}

// Forward sends a request in its turn, and returns the answer as soon as it has its headers. The body must be closed.
// An error of the turn is returned as it is, any other is a *FailedForward. Nothing is sent twice.
func (s *Sender) Forward(ctx context.Context, f *Forward, to *Target) (*http.Response, error) {
	c := &call{ctx: ctx, timeout: to.Timeout.D(), abort: f.Abort}
	if _, _, err := s.reach(f, to); err != nil { // no turn is wasted on it
		return nil, &FailedForward{Err: err}
	}
	latest, err := c.come(f)
	if err != nil {
		return nil, err
	}
	target, pool, err := s.reach(f, to) // secrets may have changed
	if err != nil {
		return nil, &FailedForward{Err: err}
	}
	b := buffers.Get().(*bytes.Buffer)
	defer buffers.Put(b)
	c.pool, c.out = pool, target.wire.forward(b, f, target)
	answer, err := c.inTurn(f, latest)
	if err != nil {
		c.end(nil, false)
		if c.refused != nil {
			return nil, c.refused
		}
		if failed := pool.dialer.failed(c.out.to); failed != nil && errors.Is(err, errUnready) {
			err = failed
		}
		err = Veil(err, func(text string) string { return hideSecrets(text, target) })
		return nil, &FailedForward{Err: err, Sent: c.sent}
	}
	if answer.StatusCode < http.StatusOK {
		c.end(answer, false)
		return nil, &FailedForward{Sent: true, Err: fmt.Errorf(
			"the receiver answered %d, which is no answer to this call", answer.StatusCode,
		)}
	}
	target.wire.relocate(answer.Header, f)
	hideInHeaders(answer.Header, target)
	answer.Body = &forwardedBody{c: c, answer: answer, body: answer.Body, whole: answer.Body == http.NoBody}
	return answer, nil
}

// reach returns a target with its secrets and its request line, and its pool, with unused connections.
func (s *Sender) reach(f *Forward, to *Target) (*Target, *pool, error) {
	target, err := to.resolve(s.secrets, f.Queue)
	if err != nil {
		return nil, nil, err
	}
	w, err := target.wired()
	if err != nil {
		return nil, nil, errURL
	}
	if target.wire == nil {
		target = new(*target)
		target.wire = w
	}
	pool, err := s.pools.of(target)
	if err != nil {
		return nil, nil, &secrets.Error{Err: err}
	}
	pool.warm(w.to, f.Spare)
	return target, pool, nil
}

// inTurn takes a connection and sends the request, until latest. Callers wait for long, so they hold no connection
// meanwhile. A caller that finds none ready misses its turn, and waits for another with the connection in hand.
func (c *call) inTurn(f *Forward, latest time.Time) (*http.Response, error) {
	for missed := false; ; {
		until := latest
		if missed {
			until = f.Deadline.Add(-min(reportWithin, time.Until(f.Deadline)/10))
		}
		conn, err := c.pool.get(c.ctx, c.out.to, until)
		if errors.Is(err, errUnready) && !missed {
			f.Turn.Miss()
			missed = true
			continue
		}
		if err != nil {
			if missed {
				c.blame(f)
			}
			return nil, err
		}
		for missed || time.Now().After(latest) {
			if !missed {
				f.Turn.Miss()
			}
			if latest, err = c.come(f); err != nil {
				c.pool.put(conn)
				return nil, err
			}
			missed = false
		}
		if !conn.usable() {
			c.pool.drop(conn)
			if conn.fresh { // the next one would fare no better
				return nil, errEnded
			}
			continue
		}
		c.conn, c.gate = conn, open(latest)
		answer, err := c.exchange()
		if !errors.Is(err, errOver) || c.sent {
			return answer, err
		}
		c.conn = nil
		c.detach()
		c.pool.put(conn)
	}
}

// reportWithin is the maximum time to wait for a turn with which to report that there was no connection.
const reportWithin = time.Second

// blame takes another turn for a request that missed its turn and found no connection. The caller ends this turn as
// failed, which the circuit counts, and which uses no departure. Without a turn, a later request may report it.
func (c *call) blame(f *Forward) {
	if c.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, reportWithin)
	defer cancel()
	_, _ = f.Turn.Come(ctx)
}

func (c *call) come(f *Forward) (time.Time, error) {
	latest, err := f.Turn.Come(c.ctx)
	c.refused = err
	return latest, err
}

// open is a gate that is open until an instant.
type open time.Time

func (o open) Wait(context.Context) error { return nil }
func (o open) Closes() time.Time          { return time.Time(o) }

var _ drain.Gate = open{}

// forward returns a caller's request. Its head is in b.
func (w *wire) forward(b *bytes.Buffer, f *Forward, target *Target) outgoing {
	h := f.Header()
	for name, value := range target.Headers {
		h[name] = []string{value}
	}
	b.Reset()
	b.WriteString(f.Method + " " + w.under(f.Path, f.Query) + " HTTP/1.1\r\n")
	_, host, _ := bytes.Cut(w.head, crlf)
	b.Write(host)
	_ = h.Write(b) // a buffer has no errors
	out := w.outgoing
	out.request = &http.Request{Method: f.Method}
	switch {
	case f.Body != nil && f.Length < 0:
		b.WriteString("Transfer-Encoding: chunked\r\n\r\n")
		out.body = (&source{f: f}).writeChunks
	case f.Body != nil && f.Length > 0:
		b.WriteString("Content-Length: " + strconv.FormatInt(f.Length, 10) + "\r\n\r\n")
		out.body = (&source{f: f}).writeAll
	case f.Method == http.MethodPost || f.Method == http.MethodPut || f.Method == http.MethodPatch:
		b.WriteString("Content-Length: 0\r\n\r\n")
	default:
		b.WriteString("\r\n")
	}
	out.head = b.Bytes()
	return out
}

// under returns the request target of a path below the target's URL.
func (w *wire) under(path, query string) string {
	base := w.request.URL
	at := strings.TrimSuffix(base.EscapedPath(), "/") + path
	if at == "" {
		at = "/"
	}
	if base.RawQuery != "" && query != "" {
		query = base.RawQuery + "&" + query
	} else {
		query = base.RawQuery + query
	}
	if query != "" {
		at += "?" + query
	}
	return at
}

// relocate has a Location below the target's URL lead to the proxy, and any other to the receiver. A relative one would
// have callers that follow it call the API of the proxy's server.
func (w *wire) relocate(h http.Header, f *Forward) {
	base := w.request.URL
	for _, name := range []string{"Location", "Content-Location"} {
		value := h.Get(name)
		if value == "" {
			continue
		}
		to, err := url.Parse(value)
		if err != nil {
			h.Del(name)
			continue
		}
		path, _, _ := strings.Cut(w.under(f.Path, ""), "?")
		called, err := base.Parse(path)
		if err != nil {
			h.Del(name)
			continue
		}
		to = called.ResolveReference(to)
		root := strings.TrimSuffix(base.EscapedPath(), "/")
		rest, below := strings.CutPrefix(to.EscapedPath(), root)
		if below && (rest == "" || rest[0] == '/') && to.User == nil && strings.EqualFold(to.Scheme, base.Scheme) &&
			strings.EqualFold(to.Host, base.Host) {
			value = f.Below + rest
			if to.RawQuery != "" {
				value += "?" + to.RawQuery
			}
			if to.Fragment != "" {
				value += "#" + to.EscapedFragment()
			}
		} else {
			value = to.String()
		}
		h.Set(name, value)
	}
}

// source reads the body of a Forward, and notes whether that failed.
type source struct {
	f   *Forward
	err error
}

func (s *source) Read(p []byte) (int, error) {
	n, err := s.f.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// blame marks an error as the caller's, if reading failed.
func (s *source) blame(err error) error {
	if s.err != nil || errors.Is(err, io.EOF) {
		return &unreadError{err}
	}
	return err
}

func (s *source) writeAll(w io.Writer) error {
	if _, err := io.CopyN(w, s, s.f.Length); err != nil {
		return s.blame(err)
	}
	return nil
}

func (s *source) writeChunks(w io.Writer) error {
	f := s.f
	chunks := httputil.NewChunkedWriter(w)
	if _, err := io.Copy(chunks, s); err != nil {
		return s.blame(err)
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	var end bytes.Buffer
	if f.Trailer != nil {
		_ = f.Trailer().Write(&end)
	}
	end.Write(crlf)
	_, err := w.Write(end.Bytes())
	return err
}

// forwardedBody is the body of an answer. Each read may take the target's timeout.
type forwardedBody struct {
	c      *call
	answer *http.Response
	body   io.Reader
	whole  bool
	closed bool
}

func (b *forwardedBody) Read(p []byte) (int, error) {
	b.c.within(b.c.timeout)
	n, err := b.body.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Close gives the connection back if the body was read to its end.
func (b *forwardedBody) Close() error {
	if !b.closed {
		b.closed = true
		b.c.end(b.answer, b.whole)
	}
	return nil
}
