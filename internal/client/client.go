// Package client is what operators need of the HTTP API of an ingress, beside what package client of the module offers
// to everybody.
//
// Changes are recorded with the note of audit.WithNote in the context. The package never retries by itself: whether and
// how long to wait is the caller's decision.
package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/queue/audit"
)

// DefaultURL is the default address of an ingress.
const DefaultURL = client.DefaultURL

// maxAnswer is the size limit of an answer that is not a stream.
const maxAnswer = 64 << 20

type (
	// Problem is a refusal by the server (RFC 9457).
	Problem = client.Problem
	// Unreachable means that no answer came, or only part of one.
	Unreachable = client.Unreachable
	// Answer is the answer about one job of a stream.
	Answer = client.Line
)

// Client is a client of one ingress. It is safe for use by many goroutines.
type Client struct{ *client.Client }

// New returns a client of the ingress at base, such as http://127.0.0.1:8080, or unix:///PATH for a socket that the
// transport of hc dials. It does not connect. A nil hc behaves like http.DefaultClient, without a timeout; each call
// has its own context.
func New(base string, hc *http.Client) (*Client, error) {
	if base == "" {
		return nil, fmt.Errorf("server %q: must be a URL such as %s", base, DefaultURL)
	}
	if hc == nil {
		hc = &http.Client{}
	}
	address, mask := base, secrets.MaskURL
	if strings.HasPrefix(base, "unix:///") && !strings.ContainsAny(base, "?#") { // hc dials it
		address = "http://localhost"
		mask = func(text string) string {
			if text == address {
				text = base
			}
			return secrets.MaskURL(text)
		}
	}
	c, err := client.New(
		address, client.WithHTTPClient(hc), client.WithToken(""), client.WithoutRetries(), client.WithTimeout(0),
		client.WithUserAgent("penstock"), client.WithBefore(addNote), client.WithMask(mask),
		client.WithAdvice("is an ingress running there? \"penstock up\" starts one; --server or PENSTOCK_URL names another"),
	)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

func addNote(req *http.Request) {
	if actor, err := audit.ActorOf(req.Context()); err == nil && actor.Note != "" && req.Method != http.MethodGet {
		req.Header.Set("Penstock-By", actor.Note)
	}
}

// do sends a request with in as its JSON body, unless in is nil. It decodes the answer into out, unless out is nil, and
// returns the answer's headers.
func (c *Client) do(ctx context.Context, method, path string, head http.Header, in, out any) (http.Header, error) {
	return c.Do(ctx, &client.Request{Method: method, Path: path, Header: head, Body: in}, out)
}

// Append sends jobs, each a JSON object without line breaks, in one stream and returns their answers in the same order.
// After an error some jobs may have been accepted; sending them again with the same ids is safe.
func (c *Client) Append(ctx context.Context, name string, jobs [][]byte) ([]Answer, error) {
	return c.AppendLines(ctx, name, jobs)
}

func queuePath(name string, more ...string) string {
	return client.Path(append([]string{"v1", "queues", name}, more...)...)
}
