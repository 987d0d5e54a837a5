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

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue/rules"
)

const (
	// maxReceipts is how many takes this server knows of as given back or not: a bit each, of the latest.
	maxReceipts = 1 << 20
	// receiptLife is how long a take can be given back, if the rule counts it for so long.
	receiptLife = 5 * time.Minute

	receiptBody = 4 + 5*8 // server, and the fields of a receipt
	receiptSum  = 16
)

// receipts let a caller give back what it took itself, and nothing else, once. A receipt carries what was taken, sealed
// with a key of this process; what was given back is a bit each. So memory is fixed, and a receipt is worth nothing at
// another server.
type receipts struct {
	begin  time.Time // all instants are since then, by the process's own clock
	now    func() time.Time
	server [4]byte
	key    [32]byte

	mu   sync.Mutex
	next uint64 // number of the next one
	used [maxReceipts / 64]uint64
}

func newReceipts(now func() time.Time) *receipts {
	r := &receipts{begin: now(), now: now}
	_, _ = rand.Read(r.server[:])
	r.server[0] &= 0x7f // or a receipt could begin with - and be taken for a flag
	_, _ = rand.Read(r.key[:])
	return r
}

// claim is what a receipt is for.
type claim struct {
	caller, rule, key string
	revision          int64 // of the rule
}

// receipt is what it says itself.
type receipt struct {
	number   uint64
	cost     int64
	interval time.Duration // in which one unit of a meter is forgotten; 0: all is forgotten together
	fresh    time.Duration // when all is
	expires  time.Duration
}

// seal authenticates the body of a receipt and what it is for.
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

// redeem uses a receipt up, and returns how much it gives back: cost, or all that the rule still counts of the take if
// that is 0. Parts of a take are given back once, too.
func (r *receipts) redeem(text string, c claim, cost int64) (back int64, number uint64, p *Problem) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) != receiptBody+receiptSum {
		return 0, 0, badField("receipt", "is not a receipt of a take: give the one that the take answered")
	}
	body, sum := raw[:receiptBody], raw[receiptBody:]
	if [4]byte(body) != r.server {
		return 0, 0, badField("receipt", "is from another server, or from before this one started again: only the server "+
			"that answered a take gives it back")
	}
	if !hmac.Equal(sum, r.seal(body, c)) {
		return 0, 0, badField("receipt", "is not for this caller, rule and key, or the rule was changed since")
	}
	field := func(n int) int64 { return int64(binary.BigEndian.Uint64(body[4+8*n:])) }
	of := receipt{
		number: uint64(field(0)), cost: field(1), interval: time.Duration(field(2)), fresh: time.Duration(field(3)),
		expires: time.Duration(field(4)),
	}
	if back = of.left(r.now().Sub(r.begin)); back < 1 {
		return 0, 0, badField("receipt", "is too old: the rule counts nothing of that take any more, or it is over "+
			receiptLife.String()+" ago")
	}
	if cost > back {
		return 0, 0, badField("cost", "is "+strconv.FormatInt(cost, 10)+", and the rule still counts "+
			strconv.FormatInt(back, 10)+" of that take; leave cost out for all of it")
	}
	if cost > 0 {
		back = cost
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next-of.number > maxReceipts {
		return 0, 0, badField("receipt", "is too old: so many were made since that this server no longer knows it")
	}
	word, bit := &r.used[of.number/64%uint64(len(r.used))], uint64(1)<<(of.number%64)
	if *word&bit != 0 {
		return 0, 0, badField("receipt", "was used already: what it is for was given back")
	}
	*word |= bit
	return back, of.number, nil
}

// left is how much of the take a rule still counts. A meter forgets unit after unit, in the order in which they were
// taken, and the take was the latest: more than that would free what others took.
func (of *receipt) left(now time.Duration) int64 {
	switch {
	case now >= of.expires:
		return 0
	case of.interval > 0:
		return min(of.cost, int64((of.fresh-now)/of.interval))
	}
	return of.cost
}

// mark sets whether a receipt is used.
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

// claimOf is what a receipt of a caller's is for; false if it can have none: while the rule is not known.
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

// receiptFor returns the receipt of a take; empty if the caller needs none, as with operate or for a place that has a
// lease, or if nothing was taken that the store knows of.
func (h *handler) receiptFor(
	ctx context.Context, name string, t *rules.Take, a *rules.Taken,
) (text string, number uint64) {
	id := caller(ctx)
	if id == nil || id.Can(auth.Operate, name) || t.Op != rules.TakeNow || a.Err != nil || !a.Allowed || a.Away != "" ||
		a.Lease != "" || a.ResetAfter <= 0 {
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

// redeem lets a caller give back what a receipt says that it took.
func (h *handler) redeem(ctx context.Context, name string, t *rules.Take, text string) (number uint64, p *Problem) {
	if t.Lease != "" {
		return 0, badField("receipt", "and lease are given: a place is given back by its lease alone")
	}
	id := caller(ctx)
	if id == nil {
		return 0, badField("receipt", "is not from this server, which asks nobody who they are: leave it out")
	}
	c, _, ok := h.claimOf(ctx, id, name, t.Key)
	if !ok {
		return 0, unknownRule(name)
	}
	t.Cost, number, p = h.receipts.redeem(text, c, t.Cost)
	return number, p
}
