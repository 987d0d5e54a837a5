package api

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/api/httpio"
	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// maxReceipts is how many of the latest receipts this server remembers, one bit each.
	maxReceipts = 1 << 20
	// receiptLife is how long a take can be refunded, as long as the rule still counts it.
	receiptLife = 5 * time.Minute

	receiptBody = 4 + 5*8 // server id and the fields of a receipt
	receiptSum  = 16
)

// receipts let a caller refund its own takes, once each, and nothing else. A receipt contains the take, sealed with a
// key of this process; whether it was used is one bit. So memory is fixed, and a receipt is worthless at another
// server.
type receipts struct {
	begin  time.Time // all times are relative to it
	now    func() time.Time
	server [4]byte
	key    [32]byte

	mu   sync.Mutex
	next uint64 // number of the next receipt
	used [maxReceipts / 64]uint64
}

func newReceipts(now func() time.Time) *receipts {
	r := &receipts{begin: now(), now: now}
	_, _ = rand.Read(r.server[:])
	r.server[0] &= 0x7f // or a receipt could begin with - and be taken for a flag
	_, _ = rand.Read(r.key[:])
	return r
}

// claim is the subject of a receipt.
type claim struct {
	caller, rule, key string
	revision          int64 // of the rule
}

// receipt is the content of a receipt.
type receipt struct {
	number   uint64
	cost     int64
	interval time.Duration // time in which a meter forgets one unit; 0: all at once
	fresh    time.Duration // when the rule has forgotten all of it
	expires  time.Duration
}

// seal returns the authentication code of a receipt and its claim.
func (r *receipts) seal(body []byte, c claim) []byte {
	sum := hmac.New(sha256.New, r.key[:])
	_, _ = sum.Write(body)
	_, _ = fmt.Fprintf(sum, "%d %d:%s%d:%s%s", c.revision, len(c.caller), c.caller, len(c.rule), c.rule, c.key)
	return sum.Sum(nil)[:receiptSum]
}

// issue returns a new receipt.
func (r *receipts) issue(c claim, cost int64, interval, fresh time.Duration) (text string, number uint64) {
	r.mu.Lock()
	number = r.next
	r.next++
	r.used[number/64%uint64(len(r.used))] &^= 1 << (number % 64)
	r.mu.Unlock()
	body := make([]byte, 0, receiptBody+receiptSum)
	body = append(body, r.server[:]...)
	now := r.now().Sub(r.begin)
	for _, n := range []int64{
		int64(number), cost, int64(interval), int64(now + fresh), int64(now + min(fresh, receiptLife)),
	} {
		body = binary.BigEndian.AppendUint64(body, uint64(n))
	}
	return base64.RawURLEncoding.EncodeToString(append(body, r.seal(body, c)...)), number
}

// redeem uses up a receipt and returns how much it refunds: cost, or, if cost is 0, all that the rule still counts of
// the take. A receipt can be used only once, even if it refunds only a part.
func (r *receipts) redeem(text string, c claim, cost int64) (back int64, number uint64, p *httpio.Problem) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != receiptBody+receiptSum {
		return 0, 0, httpio.BadField("receipt", "is not a receipt: give the receipt of the take's answer")
	}
	body, sum := raw[:receiptBody], raw[receiptBody:]
	if [4]byte(body) != r.server {
		return 0, 0, httpio.BadField("receipt", "is from another server, or from before this server restarted: only the "+
			"server "+
			"that answered a take can refund it")
	}
	if !hmac.Equal(sum, r.seal(body, c)) {
		return 0, 0, httpio.BadField("receipt", "does not match this caller, rule and key, or the rule was changed since")
	}
	field := func(n int) int64 { return int64(binary.BigEndian.Uint64(body[4+8*n:])) }
	of := receipt{
		number: uint64(field(0)), cost: field(1), interval: time.Duration(field(2)), fresh: time.Duration(field(3)),
		expires: time.Duration(field(4)),
	}
	if back = of.left(r.now().Sub(r.begin)); back < 1 {
		return 0, 0, httpio.BadField("receipt", "is too old: the rule no longer counts that take, or it was more than "+
			receiptLife.String()+" ago")
	}
	if cost > back {
		return 0, 0, httpio.BadField("cost", "is "+strconv.FormatInt(cost, 10)+", and the rule still counts "+
			strconv.FormatInt(back, 10)+" of that take; omit cost for all of it")
	}
	if cost > 0 {
		back = cost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next-of.number > maxReceipts {
		return 0, 0, httpio.BadField("receipt", "is too old: this server has issued too many receipts since")
	}
	word, bit := &r.used[of.number/64%uint64(len(r.used))], uint64(1)<<(of.number%64)
	if *word&bit != 0 {
		return 0, 0, httpio.BadField("receipt", "was used already: its take was refunded")
	}
	*word |= bit
	return back, of.number, nil
}

// left returns how much of the take the rule still counts. A meter forgets one unit after another, in the order in
// which they were taken. When it has forgotten some of this take's units, all earlier takes are forgotten, so a larger
// refund would free what later takers took.
func (of *receipt) left(now time.Duration) int64 {
	switch {
	case now >= of.expires:
		return 0
	case of.interval > 0:
		return min(of.cost, int64((of.fresh-now)/of.interval))
	}
	return of.cost
}

// mark marks a receipt as used or unused.
func (r *receipts) mark(number uint64, used bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next-number > maxReceipts {
		return
	}
	word, bit := &r.used[number/64%uint64(len(r.used))], uint64(1)<<(number%64)
	if *word &^= bit; used {
		*word |= bit
	}
}

// claimOf returns the claim of a caller's receipt. ok is false while the rule is unknown.
func (h *handler) claimOf(
	ctx context.Context, id *auth.Identity, name, key string,
) (c claim, rule rules.Rule, ok bool) {
	rule, revision, err := h.o.Rule(ctx, name)
	a := &id.Actor
	return claim{
		caller: strconv.Quote(a.App) + strconv.Quote(a.Name) + strconv.Quote(a.Token), rule: name, key: key,
		revision: revision,
	}, rule, err == nil
}

// receiptFor returns the receipt of a take. It is empty if the caller needs none (callers with operate, and leases), or
// if the store counted nothing.
func (h *handler) receiptFor(
	ctx context.Context, name string, t *rules.Take, a *rules.Taken,
) (text string, number uint64) {
	id := caller(ctx)
	if id == nil || id.Can(auth.Operate, name) || t.Op != rules.TakeNow || a.Err != nil || !a.Allowed || a.Away != "" ||
		a.Lease != "" || a.ID != "" || a.ResetAfter <= 0 {
		return "", 0
	}
	c, rule, ok := h.claimOf(ctx, id, name, t.Key)
	if !ok {
		return "", 0
	}
	interval := time.Duration(0)
	if rule.Algorithm == leaky.AlgorithmMeter || rule.Algorithm == leaky.AlgorithmTokenBucket {
		interval = rule.Of(t.Key).Rate.Interval()
	}
	return h.receipts.issue(c, max(1, t.Cost), interval, a.ResetAfter)
}

// redeem applies a receipt to a refund.
func (h *handler) redeem(
	ctx context.Context, name string, t *rules.Take, text string,
) (number uint64, p *httpio.Problem) {
	if t.Lease != "" {
		return 0, httpio.BadField("receipt", "and lease are both given: give only the lease of a place")
	}
	id := caller(ctx)
	if id == nil {
		return 0, httpio.BadField("receipt", "is not from this server, which issues none without authentication: omit it")
	}
	c, _, ok := h.claimOf(ctx, id, name, t.Key)
	if !ok {
		return 0, httpio.UnknownRule(name)
	}
	t.Cost, number, p = h.receipts.redeem(text, c, t.Cost)
	return number, p
}
