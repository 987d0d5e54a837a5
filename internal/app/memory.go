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

// MemoryFlags bound what a process holds for its clients, and say who they are.
type MemoryFlags struct {
	Memory         string   `default:"256MiB" placeholder:"SIZE"`
	TrustedProxies []string `placeholder:"RANGE,..."`
}

// LongHelp is the help that is too long for the tags.
func (MemoryFlags) LongHelp() map[string]string {
	return map[string]string{
		"memory": "What requests and connections may hold at once; one client's address at most half, and a quarter " +
			"while others want theirs. An ingress takes at most 256 MiB more (default ${default}).",
		"trusted-proxies": "Addresses (10.0.0.7) or ranges (10.0.0.0/8) of proxies in front: what they say in " +
			"X-Forwarded-For is the client's address.",
	}
}

const (
	// LeastMemory is the least that --memory may say.
	LeastMemory = 64 << 20
	// besideBudget is what the process takes beside its budget: the program, its runtime, the connections to the store,
	// what is cached of queues and rules, and what is garbage and not yet collected.
	besideBudget = 256 << 20
	// perHandler is what a drainer's handler takes at most: the largest job as it came, as it is sent, and the answer.
	perHandler = 2 << 20
	// spareMemory is how far below that the collector is told to stay. It does not know of the program's own pages, about
	// 30 MiB, and on a machine that is busy it comes late.
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
	if err != nil || n < LeastMemory || n > 1<<50 {
		return 0, fmt.Errorf("--memory %s: must be a size such as 256MiB, at least 64MiB", f.Memory)
	}
	return int64(n), nil
}

func (f *MemoryFlags) proxies() ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, s := range f.TrustedProxies {
		if s = strings.TrimSpace(s); s == "" { // of a variable that is empty
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

// Bound puts into a server's options what the flags say.
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

// collectBefore has this process's memory collected before it takes more than its maximum, unless GOMEMLIMIT says
// otherwise.
func collectBefore(maximum int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(maximum - spareMemory)
	}
}
