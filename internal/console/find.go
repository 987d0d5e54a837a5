package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
)

// findPatience is how long the page searches before it shows what it has found.
const findPatience = time.Second

// findView is the data of the search for jobs.
type findView struct {
	ID, Lane string
	Asked    bool
	// Beginning reports whether the jobs are those whose ids begin with ID, because no job has this id.
	Beginning bool
	Jobs      []wire.Job
	Older     string // link to continue the search; empty at its end
	Call      action
}

func readFind(r *request) (any, error) {
	asked := r.URL.Query()
	v := findView{ID: strings.TrimSpace(asked.Get("id")), Lane: strings.TrimSpace(asked.Get("lane"))}
	v.Asked = v.ID != "" || v.Lane != ""
	if !v.Asked {
		return v, nil
	}
	f := client.Find{ID: v.ID, Lane: v.Lane, Limit: listRows, After: asked.Get("after")}
	v.Beginning = v.ID != "" && asked.Get("prefix") != ""
	if v.Beginning {
		f.ID, f.Prefix = "", v.ID
	}
	page, err := search(r, f)
	if err != nil {
		return nil, err
	}
	if len(page.Jobs) == 0 && page.Next == "" && f.ID != "" && f.After == "" {
		f.ID, f.Prefix, v.Beginning = "", v.ID, true
		if page, err = search(r, f); err != nil {
			return nil, err
		}
	}
	v.Jobs = page.Jobs
	if page.Next != "" {
		next := url.Values{"id": {v.ID}, "lane": {v.Lane}, "after": {page.Next}}
		if v.Beginning {
			next.Set("prefix", "1")
		}
		v.Older = r.console.path("find") + "?" + next.Encode()
	}
	v.Call = findCall(f)
	return v, nil
}

// search asks until the page is full, the search has ended, or findPatience is over.
func search(r *request, f client.Find) (found wire.Jobs, err error) {
	for begun := time.Now(); ; {
		page, err := r.api.Find(r.Context(), f)
		if err != nil {
			return found, err
		}
		found.Jobs, found.Next = append(found.Jobs, page.Jobs...), page.Next
		if f.Limit -= len(page.Jobs); page.Next == "" || f.Limit <= 0 || time.Since(begun) > findPatience {
			return found, nil
		}
		f.After = page.Next
	}
}

// findCall returns the API call behind the page.
func findCall(f client.Find) action {
	query, words := url.Values{}, []string{"job", "find"}
	for _, of := range []struct {
		name, value string
		words       []string
	}{
		{"id", f.ID, []string{f.ID}},
		{"prefix", f.Prefix, []string{"--prefix", f.Prefix}},
		{"lane", f.Lane, []string{"--lane", f.Lane}},
	} {
		if of.value != "" {
			query.Set(of.name, of.value)
			words = append(words, of.words...)
		}
	}
	return action{Method: "GET", Path: apiPath("jobs") + "?" + query.Encode(), Command: words, Role: auth.View}
}
