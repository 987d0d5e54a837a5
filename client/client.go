package client

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strings"
	"time"
)

const (
	// DefaultURL is the default address of a server.
	DefaultURL = "http://127.0.0.1:8080"
	// DefaultTimeout is the default time in which a call must be answered.
	DefaultTimeout = 10 * time.Second

	maxTries  = 5
	maxAnswer = 64 << 20 // bytes of an answer that is not a stream
	module    = "github.com/penstock/penstock"
)

// Client is a client of one server.
type Client struct {
	base    string
	shown   string // base without secrets, for messages
	http    *http.Client
	agent   string
	timeout time.Duration
	tries   int
	token   *token
	before  func(*http.Request)
	notice  func(Notice)
	mask    func(string) string
	advice  string
}

// Option is an option of New.
type Option func(*Client)

// WithToken sends a token with every request. The empty token sends none, whatever the environment says.
func WithToken(value string) Option {
	return func(c *Client) { c.token = &token{value: value, known: true} }
}

// WithTokenFile sends the token in a file. The file is read again when it changes.
func WithTokenFile(path string) Option { return func(c *Client) { c.token = &token{file: path} } }

// WithTokenSource sends the token that ask returns. ask is called for the first request, and after a 401.
func WithTokenSource(ask func(context.Context) (string, error)) Option {
	return func(c *Client) { c.token = &token{ask: ask} }
}

// WithHTTPClient uses hc, for example for certificates. The default respects HTTP_PROXY, HTTPS_PROXY and NO_PROXY. For
// a unix:// address, the Transport of hc must be an *http.Transport, or nil; a copy of it dials the socket.
func WithHTTPClient(hc *http.Client) Option { return func(c *Client) { c.http = hc } }

// WithTimeout sets the time in which a call must be answered, 0 for no limit. The default is DefaultTimeout.
func WithTimeout(limit time.Duration) Option { return func(c *Client) { c.timeout = limit } }

// WithoutRetries leaves retries to the caller.
func WithoutRetries() Option { return func(c *Client) { c.tries = 1 } }

// WithUserAgent sets the header User-Agent.
func WithUserAgent(agent string) Option { return func(c *Client) { c.agent = agent } }

// WithBefore calls f with each request before it is sent, for example to add the trace context of the request's
// context.
func WithBefore(f func(*http.Request)) Option { return func(c *Client) { c.before = f } }

// WithNotices calls f with what happens beside results and errors. f must return soon.
func WithNotices(f func(Notice)) Option { return func(c *Client) { c.notice = f } }

// WithMask sets the function that hides the secrets of a URL in messages.
func WithMask(mask func(url string) string) Option { return func(c *Client) { c.mask = mask } }

// WithAdvice sets what the message says when nothing listens at the server's address.
func WithAdvice(text string) Option { return func(c *Client) { c.advice = text } }

// Kinds of notices.
const (
	NoticeRetry        = "retry"         // a call is repeated
	NoticeReconnect    = "reconnect"     // a stream of events is continued
	NoticeSettled      = "settled"       // a worker's report of an outcome was accepted
	NoticeLost         = "lost"          // a worker lost the lease of a job
	NoticeBlocked      = "blocked"       // the process stood still for longer than a lease
	NoticeMisuse       = "misuse"        // a handler panicked
	NoticeAbandoned    = "abandoned"     // a handler did not return in time
	NoticeLeaseFailed  = "lease_failed"  // a worker could not get jobs, even if refused, and tries again
	NoticeExtendFailed = "extend_failed" // a worker could not extend leases, and tries again
	NoticeSettleFailed = "settle_failed" // outcomes or actual costs could not be reported; without a Pause, that is final
	NoticeThrottle     = "throttle"      // a Transport could not report that the provider asked for a break
	NoticeTakeFailed   = "take_failed"   // a Middleware could not ask the rule
)

// Notice says what happened beside results and errors.
type Notice struct {
	Kind    string
	Queue   string
	ID      string // of the job
	Attempt int    // of the call or job, from 1
	Err     error
	Pause   time.Duration // before the next try
}

func (c *Client) tell(n Notice) {
	if c.notice != nil {
		c.notice(n)
	}
}

// New returns a client of the server at address, such as http://127.0.0.1:8080, or unix:///PATH for a socket. An empty
// address is that in PENSTOCK_URL, or else DefaultURL. The default token is that in PENSTOCK_TOKEN, or in the file that
// PENSTOCK_TOKEN_FILE names, or none. New does not connect.
func New(address string, options ...Option) (*Client, error) {
	c := &Client{timeout: DefaultTimeout, tries: maxTries, agent: "penstock-go/" + version(), mask: maskURL}
	for _, o := range options {
		o(c)
	}
	base := cmp.Or(address, os.Getenv("PENSTOCK_URL"), DefaultURL)
	c.shown = strings.TrimRight(c.mask(base), "/")
	u, err := url.Parse(base)
	socket := err == nil && u.Scheme == "unix" && u.Host == "" && u.Path != ""
	if err != nil || !socket && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("server %q: must be a URL such as %s", c.mask(base), DefaultURL)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server %q: must not have a query or fragment", c.mask(base))
	}
	if c.token == nil {
		c.token = tokenOfEnvironment()
	}
	if socket {
		base = "http://localhost"
	}
	c.base = strings.TrimRight(base, "/")
	if err := c.connect(u); err != nil {
		return nil, err
	}
	return c, nil
}

// Address returns the address of the server, without secrets.
func (c *Client) Address() string { return c.shown }

// connect makes the HTTP client. The default one keeps enough connections for many goroutines.
func (c *Client) connect(u *url.URL) error {
	given, socket, own := c.http != nil, u.Scheme == "unix", http.Client{}
	if given {
		own = *c.http
	}
	t, ok := cmp.Or(own.Transport, http.DefaultTransport).(*http.Transport)
	switch {
	case socket && !ok: // it would send the token to localhost:80
		return fmt.Errorf("server %q: %T cannot dial a socket; use an *http.Transport", c.shown, own.Transport)
	case ok && (socket || !given):
		t = t.Clone()
		own.Transport = t
	}
	if !given && ok {
		t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, 256
	}
	if socket {
		t.Proxy = nil
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", u.Path)
		}
	}
	if c.token.used() && own.CheckRedirect == nil {
		own.CheckRedirect = sameServer
	}
	c.http = &own
	return nil
}

// sameServer follows only redirects to the same server, since the token is for this one.
func sameServer(next *http.Request, before []*http.Request) error {
	if first := before[0].URL; next.URL.Scheme != first.Scheme || next.URL.Host != first.Host || len(before) >= 10 {
		return http.ErrUseLastResponse
	}
	return nil
}

// version returns the version of this module in the program.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Path == module && strings.HasPrefix(m.Version, "v") {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "devel"
}

// maskURL hides user, password, query and fragment.
func maskURL(text string) string {
	text, _, hidden := strings.Cut(text, "?")
	if before, _, found := strings.Cut(text, "#"); found {
		text, hidden = before, true
	}
	if scheme, rest, found := strings.Cut(text, "://"); found {
		host, path, _ := strings.Cut(rest, "/")
		if at := strings.LastIndex(host, "@"); at >= 0 {
			text = scheme + "://***" + host[at:] + strings.TrimSuffix("/"+path, "/")
		}
	}
	if hidden {
		text += "?***"
	}
	return text
}

// Path returns a path of escaped parts: Path("v1", "queues", "email") is /v1/queues/email.
func Path(parts ...string) string {
	var path strings.Builder
	for _, part := range parts {
		path.WriteString("/" + url.PathEscape(part))
	}
	return path.String()
}

func queuePath(queue string, more ...string) string {
	return Path(append([]string{"v1", "queues", queue}, more...)...)
}
