package queuetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock/penstock/queue"
)

var auditTextRules = []rule{
	{"of a text that is too long an entry has the digest, and says that it is left out", func(r *rig) {
		of := func(length int) string { return `"` + strings.Repeat("x", length-2) + `"` }
		const most = queue.MaxAuditTextBytes
		before := ""
		for _, length := range []int{most, most + 1, most + 2, 7 * most, most, 10} {
			after := of(length)
			entries, records := r.audits(0, 1, func() { r.putDocument("app", "a", after) })
			var leftOut []string
			for _, side := range []struct {
				name, want string
				got        []byte
				digest     queue.Digest
			}{
				{queue.AuditBefore, before, records[0].Before, entries[0].Before},
				{queue.AuditAfter, after, records[0].After, entries[0].After},
			} {
				want, digest := side.want, queue.DigestOf([]byte(side.want))
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
			before = after
		}
	}},
	{"of a spec that is too long an entry has the digest", func(r *rig) {
		long := spec("q", "1/s", func(s *queue.Spec) {
			s.Deliver = fmt.Appendf(nil, `{"http":{"url":"http://a.example/%s"}}`, strings.Repeat("x", queue.MaxAuditTextBytes))
		})
		short := spec("q", "2/s")
		r.put(long)
		r.put(short)
		records := r.auditRecords(r.partition("q"))
		for i, want := range []string{queue.AuditAfter, queue.AuditBefore} {
			e, err := records[i].Entry()
			r.check(err)
			if digest := queue.DigestOf(r.specText(long)); !slices.Equal(e.LeftOut, []string{want}) ||
				want == queue.AuditAfter && e.After != digest || want == queue.AuditBefore && e.Before != digest {
				r.Errorf("entry %d: %s", i+1, records[i].Text)
			}
		}
	}},
}
