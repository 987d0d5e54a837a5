package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
)

// fault is what went wrong, as a page says it.
type fault struct {
	Status        int
	Title, Detail string
	Reason        string // the API's word for it
	Field         string
	Done          int64  // jobs that were acted on before it
	Back          string // where to go from here; empty is the overview
}

func faultOf(err error) *fault {
	var p *client.Problem
	switch {
	case errors.As(err, &p):
		title := p.Title
		if title == "" {
			title = http.StatusText(p.Status)
		}
		return &fault{Status: p.Status, Title: title, Detail: p.Detail, Reason: p.Reason, Field: p.Field}
	case errors.Is(err, ops.ErrShare):
		return &fault{
			Status: http.StatusTooManyRequests, Title: "There is no memory left for your address.",
			Detail: "It has its share of what this server has for requests in use. Wait for other pages, and try it again.",
		}
	case errors.Is(err, ops.ErrSpent):
		return &fault{
			Status: http.StatusServiceUnavailable, Title: "There is no memory left for this page.",
			Detail: "All that this server has for requests is in use. Try it again in a moment.",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault{Status: http.StatusServiceUnavailable, Title: "That took too long.", Detail: "Try it again."}
	}
	return &fault{Status: http.StatusInternalServerError, Title: "The page could not be made.", Detail: err.Error()}
}

// problem shows what went wrong.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, who wire.Whoami, f *fault) {
	if f.Back == "" {
		f.Back = c.root + "/"
	}
	c.render(w, r, f.Status, "problem", &view{Title: f.Title, Who: who, Data: f})
}
