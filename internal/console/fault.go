package console

import (
	"context"
	"errors"
	"net/http"

	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/ops"
	"github.com/penstock/penstock/internal/wire"
)

// fault is an error for display on a page.
type fault struct {
	Status        int
	Title, Detail string
	Reason        string // the API's error code
	Field         string
	Done          int64   // jobs changed before the error
	Back          string  // link to go back; empty is the overview
	Again         *action // the form with the user's input; may be nil
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
			Status: http.StatusTooManyRequests, Title: "Out of memory for your address",
			Detail: "Your address has used its share of the memory for requests. Wait for other pages, then retry.",
		}
	case errors.Is(err, ops.ErrSpent):
		return &fault{
			Status: http.StatusServiceUnavailable, Title: "There is no memory left for this page",
			Detail: "This server uses all of its memory for requests. Retry in a moment.",
		}
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &fault{Status: http.StatusServiceUnavailable, Title: "Timed out", Detail: "The request took too long."}
	}
	return &fault{Status: http.StatusInternalServerError, Title: "Cannot show this page", Detail: err.Error()}
}

// problem answers with the page of a fault.
func (c *Console) problem(w http.ResponseWriter, r *http.Request, who wire.Whoami, f *fault) {
	if f.Back == "" {
		f.Back = c.root + "/"
	}
	c.render(w, r, f.Status, "problem", &view{Title: f.Title, Who: who, Data: f})
}
