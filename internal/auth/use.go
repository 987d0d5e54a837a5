package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// The day of a token's last use is stored apart from the token, in documents for many tokens each. A token's use is
// written at most once a day, and one write covers the new uses of many tokens, so that the audit log is not flooded.
const (
	kindUse   = "token_use"
	useShards = 64
	// mostUses is how many uses fit into a document. The oldest are dropped.
	mostUses = 2500
)

func shardOf(id string) int { return int(crc32.ChecksumIEEE([]byte(id)) % useShards) }

func shardName(n int) string { return fmt.Sprintf("%02d", n) }

func shardNamed(name string) (n int, ok bool) {
	n, err := strconv.Atoi(name)
	return n, err == nil && n >= 0 && n < useShards && shardName(n) == name
}

// uses are the tokens whose first use on their day is not written yet.
type uses struct {
	mu    sync.Mutex
	fresh [useShards]map[string]int32
}

// used records that a token is used now.
func (u *uses) used(id string, held *heldToken, now time.Time) {
	today := dayOf(now)
	if last := held.used.Load(); last == today || !held.used.CompareAndSwap(last, today) {
		return
	}
	n := shardOf(id)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.fresh[n] == nil {
		u.fresh[n] = map[string]int32{}
	}
	if len(u.fresh[n]) < mostUses {
		u.fresh[n][id] = today
	}
}

func (u *uses) flush(n int) map[string]int32 {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := u.fresh[n]
	u.fresh[n] = nil
	return taken
}

func dayOf(t time.Time) int32 { return int32(t.Unix() / (24 * 60 * 60)) }

func dayTime(day int32) time.Time {
	if day == 0 {
		return time.Time{}
	}
	return time.Unix(int64(day)*24*60*60, 0).UTC()
}

// writeUses writes new uses. Failed writes are lost: the tokens are used again tomorrow.
func (a *Authority) writeUses(ctx context.Context) {
	for n := range useShards {
		fresh := a.uses.flush(n)
		if len(fresh) == 0 || ctx.Err() != nil {
			continue
		}
		if err := a.writeShard(ctx, n, fresh); err != nil {
			a.log.Warn("the days of tokens' last uses could not be written", "error", err)
			return
		}
	}
}

func (a *Authority) writeShard(ctx context.Context, n int, fresh map[string]int32) error {
	for range 3 { // other processes write too
		d, err := a.store.Document(ctx, kindUse, shardName(n))
		if err != nil && !errors.Is(err, document.ErrUnknown) {
			return err
		}
		days := readUses(&d)
		if days == nil {
			days = map[string]int32{}
		}
		for id, day := range fresh {
			days[id] = max(days[id], day)
		}
		a.forgetUses(days)
		text, err := json.Marshal(days)
		if err != nil {
			return err
		}
		expect := d.Revision
		d.Kind, d.Name, d.Text = kindUse, shardName(n), text
		if d.Revision, err = a.store.PutDocument(ctx, d, expect); err == nil {
			a.replica.learn(d)
			return nil
		}
		if !errors.Is(err, queue.ErrRevision) {
			return err
		}
	}
	return nil
}

// forgetUses drops tokens that no longer exist, and the oldest uses beyond mostUses.
func (a *Authority) forgetUses(days map[string]int32) {
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	maps.DeleteFunc(days, func(id string, _ int32) bool {
		held := a.replica.view.tokens[id]
		return held == nil || held.revoked != 0
	})
	for len(days) > mostUses {
		oldest := int32(1<<31 - 1)
		for _, day := range days {
			oldest = min(oldest, day)
		}
		maps.DeleteFunc(days, func(_ string, day int32) bool { return day == oldest && len(days) > mostUses })
	}
}

func readUses(d *document.Document) (days map[string]int32) {
	if d.Text == nil || json.Unmarshal(d.Text, &days) != nil {
		return nil
	}
	return days
}

// lastUsed returns the day of a token's last known use. The replica's mu is held.
func (v *view) lastUsed(id string, days map[string]int32) time.Time {
	day := days[id]
	if held := v.tokens[id]; held != nil {
		day = max(day, held.used.Load())
	}
	return dayTime(day)
}
