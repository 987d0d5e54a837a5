package api

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/queue"
)

// etag is the revision of a queue or a rule as an entity tag. It stands for the spec: the
// statistics beside it change all the time.
func etag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// expected reads If-Match and If-None-Match into the revision that the engine
// shall insist on: the comparison itself is the engine's, in the same step as
// the change.
func (h *handler) expected(r *http.Request, name string) (int64, *Problem) {
	return expected(r, func() (int64, *Problem) {
		info, err := h.engine.Get(r.Context(), name)
		if errors.Is(err, queue.ErrUnknownQueue) {
			return 0, &Problem{Reason: ReasonRevision, Detail: "there is no such queue"}
		}
		if err != nil {
			return 0, refused(err)
		}
		return info.Revision, nil
	})
}

// expected needs the present revision only where the headers leave a choice.
func expected(r *http.Request, present func() (int64, *Problem)) (int64, *Problem) {
	match, ifMatch := elements(r, "If-Match")
	noneMatch, ifNoneMatch := elements(r, "If-None-Match")
	switch {
	case !ifMatch && !ifNoneMatch:
		return queue.AnyRevision, nil
	case ifMatch && ifNoneMatch:
		return 0, badCondition("If-Match", "cannot be given together with If-None-Match")
	case ifNoneMatch && slices.Equal(noneMatch, []string{"*"}):
		return 0, nil
	case ifNoneMatch:
		return 0, badCondition("If-None-Match", `takes only * here, for "must not exist yet"`)
	case len(match) == 0: // the change it stands before is not meant for any revision
		return 0, badCondition("If-Match", `is empty; give the ETag that a GET answers, such as "7", or leave the header out`)
	}
	whatever := slices.Equal(match, []string{"*"})
	var wanted []int64
	if !whatever {
		for _, tag := range match {
			revision, ok := revisionOf(tag)
			if !ok {
				return 0, badCondition(
					"If-Match", shorten(tag)+` is not an ETag of ours; those are a revision in quotes, such as "7"`,
				)
			}
			wanted = append(wanted, revision)
		}
		if len(wanted) == 1 {
			return wanted[0], nil
		}
	}
	// Several, or any: settle on the present one if it is among them. Should it
	// change before the engine compares, the engine refuses.
	revision, p := present()
	if p != nil {
		return 0, p
	}
	if !whatever && !slices.Contains(wanted, revision) {
		return 0, &Problem{Reason: ReasonRevision, Revision: revision, Detail: changedSince}
	}
	return revision, nil
}

func badCondition(field, detail string) *Problem {
	return &Problem{Reason: ReasonInvalidRequest, Field: field, Detail: detail}
}

// elements are those of a header that is a list, and whether it was given. Its lines
// are one list, and empty elements are none (RFC 9110, 5.3 and 5.6.1.2).
func elements(r *http.Request, name string) (list []string, given bool) {
	lines := r.Header.Values(name)
	for _, line := range lines {
		for element := range strings.SplitSeq(line, ",") {
			if element = strings.TrimSpace(element); element != "" {
				list = append(list, element)
			}
		}
	}
	return list, len(lines) > 0
}

// revisionOf reads an entity tag made by etag. A weak one never matches.
func revisionOf(tag string) (int64, bool) {
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	return n, err == nil && n > 0
}
