package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/queue"
)

// etag is a queue's revision as an entity tag. It stands for the spec: the
// statistics beside it change all the time.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// expected reads If-Match and If-None-Match into the revision that the engine
// shall insist on: the comparison itself is the engine's, in the same step as
// the change.
func (h *handler) expected(r *http.Request, name string) (int64, *Problem) {
	match, noneMatch := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match == "" && noneMatch == "":
		return queue.AnyRevision, nil
	case match != "" && noneMatch != "":
		return 0, &Problem{Reason: ReasonInvalidRequest, Field: "If-Match", Detail: "cannot be given together with If-None-Match"}
	case noneMatch == "*":
		return 0, nil
	case noneMatch != "":
		return 0, &Problem{Reason: ReasonInvalidRequest, Field: "If-None-Match", Detail: `takes only * here, for "must not exist yet"`}
	}
	var wanted []int64
	if match != "*" {
		for tag := range strings.SplitSeq(match, ",") {
			revision, ok := revisionOf(strings.TrimSpace(tag))
			if !ok {
				return 0, &Problem{
					Reason: ReasonInvalidRequest, Field: "If-Match",
					Detail: shorten(tag) + ` is not an ETag of a queue; those are its revision in quotes, such as "7"`,
				}
			}
			wanted = append(wanted, revision)
		}
		if len(wanted) == 1 {
			return wanted[0], nil
		}
	}
	// Several, or any: settle on the present one if it is among them. Should it
	// change before the engine compares, the engine refuses.
	info, err := h.engine.Get(r.Context(), name)
	if err != nil {
		p := refused(err)
		if p.Reason == ReasonUnknownQueue {
			p = &Problem{Reason: ReasonRevision, Detail: "there is no such queue"}
		}
		return 0, p
	}
	if match != "*" && !slices.Contains(wanted, info.Revision) {
		return 0, &Problem{Reason: ReasonRevision, Revision: info.Revision, Detail: "the queue has changed since it was read; get it and try again"}
	}
	return info.Revision, nil
}

// revisionOf reads an entity tag made by etag. A weak one never matches.
func revisionOf(tag string) (int64, bool) {
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	return n, err == nil && n > 0
}
