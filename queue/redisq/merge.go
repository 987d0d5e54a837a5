package redisq

import (
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// listPage is the maximum number of entries that one script reads.
const listPage = 200

// listing is one partition's part of a list.
type listing[T any] struct {
	ahead []T
	next  string // the name to continue with
	over  bool
}

// merged returns the first entries of all partitions behind a name, sorted by name. page reads some entries of one
// partition, and returns the name to continue with, "" at the end. Each partition is read for about its share of the
// entries, and for more when that is used up: names are spread evenly, and reading whole pages of all partitions would
// read the list many times.
func merged[T any](partitions int, after string, limit int, name func(*T) string,
	page func(partition int, after string, limit int) ([]T, string, error),
) ([]T, error) {
	share := min(limit/partitions+4, listPage)
	parts := make([]listing[T], partitions)
	for p := range parts {
		parts[p].next = after
	}
	var all []T
	for len(all) < limit {
		var first *listing[T]
		for p := range parts {
			l := &parts[p]
			for len(l.ahead) == 0 && !l.over {
				var err error
				if l.ahead, l.next, err = page(p, l.next, share); err != nil {
					return nil, err
				}
				l.over = l.next == ""
			}
			if len(l.ahead) > 0 && (first == nil || name(&l.ahead[0]) < name(&first.ahead[0])) {
				first = l
			}
		}
		if first == nil {
			break
		}
		all, first.ahead = append(all, first.ahead[0]), first.ahead[1:]
	}
	return all, nil
}

func nameOfInfo(i *queue.Info) string      { return i.Spec.Name }
func nameOfRule(i *rules.Info) string      { return i.Name }
func nameOfDead(d *queue.DeadQueue) string { return d.Queue }
