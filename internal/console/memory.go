package console

import (
	"context"
	"net/http"

	"github.com/penstock/penstock/internal/ops"
)

const (
	// freeSize is how much of an answer, a form or a page is in what its connection costs.
	freeSize = 16 << 10
	// answerCost is what a byte of the API's answer may take until the page is made: in the answer, where that is read,
	// as what is read of it, and as what a page makes of that.
	answerCost = 4
	// formCost is what a byte of a form may take: as it came, as what is read of it, and as what the API is asked.
	formCost = 3
)

// held is what a request for a page has taken of the memory that there is for its client.
type held struct {
	account *ops.Account
	n       int64
}

type heldKey struct{}

// holding is a request with nothing held for it yet. free gives back what is held when it has been served.
func (c *Console) holding(r *http.Request) (with *http.Request, free func()) {
	h := &held{account: ops.ClientOf(r.Context())}
	if h.account == nil {
		h.account = c.o.Memory.Nobody()
	}
	return r.WithContext(context.WithValue(r.Context(), heldKey{}, h)), func() { h.account.Free(h.n) }
}

// heldFor is what is held for a request that the console serves.
func heldFor(r *http.Request) *held { return r.Context().Value(heldKey{}).(*held) }

// take has n more held, or refuses; see ops.Account.
func (h *held) take(n int64) error {
	if err := h.account.Take(n); err != nil {
		return err
	}
	h.n += n
	return nil
}

// count has n more held, whether there is so much or not: what was done is answered.
func (h *held) count(n int64) {
	h.account.Add(n)
	h.n += n
}

// become has n held in place of all that was.
func (h *held) become(n int64) error {
	if n > h.n {
		return h.take(n - h.n)
	}
	h.account.Free(h.n - n)
	h.n = n
	return nil
}

// readForm reads the form of a request.
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
		return &fault{Title: "This form cannot be read.", Detail: err.Error()}
	}
	return nil
}
