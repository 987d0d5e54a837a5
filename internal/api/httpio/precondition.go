package httpio

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/queue"
)

// ETag returns a revision as an entity tag. It identifies the spec, not the statistics, which change all the time.
func ETag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// Expected reads If-Match and If-None-Match and returns the revision that the engine must find: queue.AnyRevision
// without these headers, 0 for "must not exist". The engine compares, in the same step as the change.
//
// present returns the present revision. It is called only if the headers allow more than one revision.
func Expected(r *http.Request, present func() (int64, *Problem)) (int64, *Problem) {
	match, ifMatch := headerList(r, "If-Match")
	noneMatch, ifNoneMatch := headerList(r, "If-None-Match")
	switch {
	case !ifMatch && !ifNoneMatch:
		return queue.AnyRevision, nil
	case ifMatch && ifNoneMatch:
		return 0, badCondition("If-Match", "cannot be given together with If-None-Match")
	case ifNoneMatch && slices.Equal(noneMatch, []string{"*"}):
		return 0, nil
	case ifNoneMatch:
		return 0, badCondition("If-None-Match", `takes only * here, for "must not exist yet"`)
	case len(match) == 0: // an empty list matches no revision
		return 0, badCondition("If-Match", `is empty; give the ETag of a GET, such as "7", or omit the header`)
	}
	anyRevision := slices.Equal(match, []string{"*"})
	var wanted []int64
	if !anyRevision {
		for _, tag := range match {
			revision, ok := revisionOf(tag)
			if !ok {
				return 0, badCondition(
					"If-Match", Shorten(tag)+` is not an ETag of this API, which is a revision in quotes, such as "7"`,
				)
			}
			wanted = append(wanted, revision)
		}
		if len(wanted) == 1 {
			return wanted[0], nil
		}
	}
	// Several revisions, or any: expect the present one, if it is among them. If it changes before the engine compares,
	// the engine refuses.
	revision, p := present()
	if p != nil {
		return 0, p
	}
	if !anyRevision && !slices.Contains(wanted, revision) {
		return 0, &Problem{Reason: ReasonRevision, Revision: revision, Detail: ChangedSince}
	}
	return revision, nil
}

func badCondition(field, detail string) *Problem {
	return &Problem{Reason: ReasonInvalidRequest, Field: field, Detail: detail}
}

// headerList returns the elements of a header that is a list, and whether the header was given. Its lines are one list,
// and empty elements do not count (RFC 9110, 5.3 and 5.6.1.2).
func headerList(r *http.Request, name string) (list []string, given bool) {
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

// revisionOf parses the result of ETag. A weak tag never matches.
func revisionOf(tag string) (int64, bool) {
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, false
	}
	n, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	return n, err == nil && n > 0
}
