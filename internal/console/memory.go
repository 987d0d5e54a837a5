package console

import (
	"context"
	"net/http"

	"github.com/penstock/penstock/internal/ops"
)

const (
	// freeSize is the part of a response, form or page that the fixed cost of a connection covers.
	freeSize = 16 << 10
	// answerCost is the memory charged per byte of an API response: the response, its decoder's copy, the decoded
	// value and the page.
	answerCost = 4
	// formCost is the memory charged per byte of a form: the body, the parsed form and the API request.
	formCost = 3
)

// held is the memory that a page request has charged to its client's account.
type held struct {
	account *ops.Account
	n       int64
}

type heldKey struct{}

// holding returns r with an empty charge. free releases the charge after the request.
func (c *Console) holding(r *http.Request) (with *http.Request, free func()) {
	h := &held{account: ops.ClientOf(r.Context())}
	if h.account == nil {
		h.account = c.o.Memory.Nobody()
	}
	return r.WithContext(context.WithValue(r.Context(), heldKey{}, h)), func() { h.account.Free(h.n) }
}

// heldFor returns the charge of a request that the console serves.
func heldFor(r *http.Request) *held { return r.Context().Value(heldKey{}).(*held) }

// take charges n more bytes, or refuses; see ops.Account.
func (h *held) take(n int64) error {
	if err := h.account.Take(n); err != nil {
		return err
	}
	h.n += n
	return nil
}

// count charges n more bytes even beyond the limit: the response to a completed change must reach the user.
func (h *held) count(n int64) {
	h.account.Add(n)
	h.n += n
}

// become replaces the whole charge with n.
func (h *held) become(n int64) error {
	if n > h.n {
		return h.take(n - h.n)
	}
	h.account.Free(h.n - n)
	h.n = n
	return nil
}

func readForm(w http.ResponseWriter, r *http.Request) *fault {
	size := r.ContentLength
	if size < 0 || size > maxForm {
		size = maxForm
	}
	if size > freeSize {
		if err := heldFor(r).take(size * formCost); err != nil {
			return faultOf(err)
		}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return &fault{Title: "Cannot read the form", Detail: err.Error()}
	}
	return nil
}
