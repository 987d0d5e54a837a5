package redisq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
)

// The digests of lib/sha256.lua are those of crypto/sha256.
func TestSHA256InLua(t *testing.T) {
	t.Parallel()
	c, ctx := redistest.New(t, redistest.Options{}).Client(), context.Background()
	script := library("names").text + library("sha256").text + `
local out = {}
for i, text in ipairs(ARGV) do out[i] = sha256(text) end
return out`
	random := rand.NewChaCha8([32]byte{1})
	text := func(length int) string {
		b := make([]byte, length)
		_, _ = random.Read(b)
		return string(b)
	}
	var texts []any
	for length := range 201 {
		texts = append(texts, text(length))
	}
	for range 50 {
		texts = append(texts, text(rand.IntN(3000)))
	}
	for _, b := range []byte{0, 0xff, 0x80, 0x7f} { // the greatest sums, or about
		all := make([]byte, 500)
		for i := range all {
			all[i] = b
		}
		texts = append(texts, string(all))
	}
	texts = append(texts, text(1<<16))
	got, err := c.Eval(ctx, script, []string{"ps{0}"}, texts...).StringSlice()
	if err != nil || len(got) != len(texts) {
		t.Fatal(len(got), err)
	}
	for i := range texts {
		want := sha256.Sum256([]byte(texts[i].(string)))
		if got[i] != hex.EncodeToString(want[:]) {
			t.Errorf("of %d bytes: %s, want %x", len(texts[i].(string)), got[i], want)
		}
	}
}
