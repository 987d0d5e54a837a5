package unit

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/clip"
)

// Bytes is a size. It is written as "64MiB" or "1500B"; a plain number means bytes.
type Bytes int64

var byteUnits = []struct {
	name string
	size Bytes
}{
	{"TiB", 1 << 40},
	{"GiB", 1 << 30},
	{"MiB", 1 << 20},
	{"KiB", 1 << 10},
	{"TB", 1e12},
	{"GB", 1e9},
	{"MB", 1e6},
	{"kB", 1e3},
	{"B", 1},
}

// String returns the exact size in the largest power of 1024 that divides b.
func (b Bytes) String() string {
	for _, u := range byteUnits[:4] {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// Short returns b with about three digits for display: "32.0 KiB".
func (b Bytes) Short() string {
	if b < 1000 {
		return strconv.FormatInt(int64(b), 10) + " B"
	}
	u := byteUnits[3]
	for at := 2; at >= 0 && float64(b) >= 1000*float64(u.size); at-- {
		u = byteUnits[at]
	}
	v, digits := float64(b)/float64(u.size), 0
	if v < 100 {
		digits = 1
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + " " + u.name
}

// ParseBytes parses a size such as 64MiB, 1.5GB or 1500.
func ParseBytes(s string) (Bytes, error) {
	number, unit := strings.TrimSpace(s), Bytes(1)
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(number, u.name); ok {
			number, unit = strings.TrimSpace(n), u.size
			break
		}
	}
	if n, err := strconv.ParseInt(number, 10, 64); err == nil && n >= 0 && n <= math.MaxInt64/int64(unit) {
		return Bytes(n) * unit, nil
	}
	f, err := strconv.ParseFloat(number, 64)
	size := f * float64(unit)
	if err != nil || strings.ContainsAny(number, "eEpPxXiInN_+-") || size >= math.MaxInt64 || size != math.Trunc(size) {
		return 0, fmt.Errorf("%s is not a size in bytes such as 64MiB, 1.5GB or 1500", clip.Quote(s, 40))
	}
	return Bytes(size), nil
}

// MarshalText writes b as String does.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalJSON parses a string as ParseBytes does, or a number.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	s := string(text)
	if unquoted, err := strconv.Unquote(s); err == nil && s[0] == '"' {
		s = unquoted
	}
	v, err := ParseBytes(s)
	if err != nil {
		return err
	}
	*b = v
	return nil
}
