package queuetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
)

var auditTextRules = []rule{
	{"an entry has only the digest of a text that is too long, and says so", func(r *rig) {
		of := func(length int) string { return `"` + strings.Repeat("x", length-2) + `"` }
		const most = audit.MaxTextBytes
		before := ""
		for _, length := range []int{most, most + 1, most + 2, 7 * most, most, 10} {
			after := of(length)
			entries, records := r.audits(0, 1, func() { r.putDocument("app", "a", after) })
			var leftOut []string
			for _, side := range []struct {
				name, want string
				got        []byte
				digest     audit.Digest
			}{
				{audit.Before, before, records[0].Before, entries[0].Before},
				{audit.After, after, records[0].After, entries[0].After},
			} {
				want, digest := side.want, audit.DigestOf([]byte(side.want))
				if want == "" {
					digest = ""
				}
				if len(want) > most {
					want, leftOut = "", append(leftOut, side.name)
				}
				if string(side.got) != want || side.digest != digest {
					r.Errorf("%s has %d bytes with digest %s, want %d with %s", side.name, len(side.got), side.digest,
						len(want), digest)
				}
			}
			if got := entries[0].LeftOut; !slices.Equal(got, leftOut) {
				r.Errorf("%d bytes: %q are left out, want %q", length, got, leftOut)
			}
			var diff *audit.Diff
			if leftOut != nil {
				d := audit.DiffOf(before, after)
				diff = &d
			}
			if got := entries[0].Diff; (got == nil) != (diff == nil) || diff != nil && *got != *diff {
				r.Errorf("%d bytes: differs in %+v, want %+v", length, got, diff)
			}
			before = after
		}
	}},
	{"an entry has only the digest of a spec that is too long", func(r *rig) {
		long := spec("q", "1/s", func(s *queue.Spec) {
			s.Deliver = fmt.Appendf(nil, `{"http":{"url":"http://a.example/%s"}}`, strings.Repeat("x", audit.MaxTextBytes))
		})
		short := spec("q", "2/s")
		r.put(long)
		r.put(short)
		records := r.auditRecords(r.partition("q"))
		for i, want := range []string{audit.After, audit.Before} {
			e, err := records[i].Entry()
			r.check(err)
			if digest := audit.DigestOf(r.specText(long)); !slices.Equal(e.LeftOut, []string{want}) ||
				want == audit.After && e.After != digest || want == audit.Before && e.Before != digest {
				r.Errorf("entry %d: %s", i+1, records[i].Text)
			}
		}
	}},
	{"the changed part is cut at a whole character", func(r *rig) {
		long := strings.Repeat("ü", audit.MaxTextBytes)
		before := ""
		for _, after := range []string{
			`"` + long + `é!"`, `"` + long + `ê!"`, `"` + long + `ũ©!"`, `"é` + long + `"`, `"é"`,
		} {
			entries, records := r.audits(0, 1, func() { r.putDocument("app", "a", after) })
			if want, got := audit.DiffOf(before, after), entries[0].Diff; got == nil || *got != want {
				r.Errorf("%+v, want %+v", got, want)
			}
			if n := len(records[0].Text); n > 4*audit.MaxDiffBytes {
				r.Errorf("an entry of %d bytes", n)
			}
			before = after
		}
	}},
}
