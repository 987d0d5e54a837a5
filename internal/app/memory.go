package app

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/penstock/penstock/internal/ops"
)

// MemoryFlags limit the memory that a process uses for its clients, and set how clients are told apart.
type MemoryFlags struct {
	Memory         string   `default:"256MiB" placeholder:"SIZE"`
	TrustedProxies []string `placeholder:"RANGE,..."`
}

// LongHelp implements longHelper.
func (MemoryFlags) LongHelp() map[string]string {
	return map[string]string{
		"memory": "Maximum memory for requests and connections. A single client address may use half of it, or a quarter " +
			"while others need theirs. The process uses at most 256 MiB more (default ${default}).",
		"trusted-proxies": "Addresses (10.0.0.7) or ranges (10.0.0.0/8) of reverse proxies whose X-Forwarded-For is " +
			"trusted for the client's address.",
	}
}

const (
	// MinMemory is the minimum of --memory.
	MinMemory = 64 << 20
	// besideBudget is the memory of the process beside its budget: the program, its runtime, connections to the store,
	// caches of queues and rules, and garbage that is not collected yet.
	besideBudget = 256 << 20
	// perHandler is the maximum memory of a drainer's handler: the largest job as received, as sent, and the answer.
	perHandler = 2 << 20
	// spareMemory is the distance between the collector's limit and the maximum. The collector does not count the
	// program's own pages, about 30 MiB, and is late on a busy machine.
	spareMemory = 128 << 20
)

// Validate is called by the parser.
func (f *MemoryFlags) Validate() error {
	_, err := f.bytes()
	_, ranges := f.proxies()
	return errors.Join(err, ranges)
}

func (f *MemoryFlags) bytes() (int64, error) {
	n, err := humanize.ParseBytes(f.Memory)
	if err != nil || n < MinMemory || n > 1<<50 {
		return 0, fmt.Errorf("--memory %s: must be a size such as 256MiB, at least 64MiB", f.Memory)
	}
	return int64(n), nil
}

func (f *MemoryFlags) proxies() ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, s := range f.TrustedProxies {
		if s = strings.TrimSpace(s); s == "" { // from an empty environment variable
			continue
		}
		p, err := netip.ParsePrefix(s)
		if at, e := netip.ParseAddr(s); e == nil {
			p, err = netip.PrefixFrom(at, at.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("--trusted-proxies %s: must be an address such as 10.0.0.7 or a range such as "+
				"10.0.0.0/8", s)
		}
		ranges = append(ranges, p.Masked())
	}
	return ranges, nil
}

// Bound sets the memory budget and the trusted proxies in a server's options.
func (f *MemoryFlags) Bound(o *ops.ServerOptions) error {
	n, err := f.bytes()
	if err != nil {
		return err
	}
	if o.Proxies, err = f.proxies(); err != nil {
		return err
	}
	o.Memory = ops.NewBudget(n)
	return nil
}

// collectBefore has the garbage collector keep the process below the given maximum, unless GOMEMLIMIT is set.
func collectBefore(maximum int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(maximum - spareMemory)
	}
}
