package api

import (
	"mime"
	"net/http"
	"strings"
)

const (
	mediaJSON   = "application/json"
	mediaNDJSON = "application/x-ndjson"
)

// otherNames are those by which lines of JSON go besides.
var otherNames = map[string]string{"application/ndjson": mediaNDJSON, "application/jsonl": mediaNDJSON}

// media returns what a body is said to be, mediaJSON or mediaNDJSON, or "" of a request without a body that says
// nothing. Everything else is refused: a web page may send what it likes as text, as a form, or as nothing in
// particular, but not as JSON without being asked for leave first. The usual ones cost nothing.
func media(r *http.Request) (string, *Problem) {
	const send = "send application/json for one object, application/x-ndjson for many jobs"
	values := r.Header["Content-Type"]
	switch missing := len(values) == 0 || len(values) == 1 && values[0] == ""; {
	case missing && r.ContentLength == 0:
		return "", nil
	case missing:
		return "", badMedia("is missing, and there is a body; " + send)
	case len(values) > 1:
		return "", badMedia("is given more than once; " + send)
	}
	switch values[0] {
	case mediaJSON, mediaNDJSON:
		return values[0], nil
	}
	t, parameters, err := mime.ParseMediaType(values[0])
	if other, ok := otherNames[t]; ok {
		t = other
	}
	if err != nil || t != mediaJSON && t != mediaNDJSON {
		return "", badMedia(shorten(values[0]) + " is not supported; " + send)
	}
	if charset, ok := parameters["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return "", badMedia("charset " + shorten(charset) + " is not supported; JSON is UTF-8")
	}
	return t, nil
}

func badMedia(detail string) *Problem {
	return &Problem{Reason: ReasonMediaType, Field: "Content-Type", Detail: detail}
}

// requireJSON refuses a body that is not said to be one JSON value.
func requireJSON(r *http.Request) *Problem {
	t, p := media(r)
	if p == nil && t == mediaNDJSON {
		p = badMedia(t + " is not supported here; send application/json")
	}
	return p
}
