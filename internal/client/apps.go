package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/penstock/penstock/internal/wire"
)

// listed reads all pages of a list: next is the after of the page behind one, empty of the last.
func listed[P any](ctx context.Context, c *Client, path string, query url.Values, next func(*P) string) error {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(page))
	for after := ""; ; {
		var answer P
		if _, err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, nil, &answer); err != nil {
			return err
		}
		behind := next(&answer)
		if behind == "" || behind == after {
			return nil
		}
		after = behind
		query.Set("after", after)
	}
}

// onePage reads a page of a list, behind a name, of up to limit entries.
func onePage[P any](
	ctx context.Context, c *Client, path string, query url.Values, after string, limit int,
) (p P, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", strconv.Itoa(limit))
	if after != "" {
		query.Set("after", after)
	}
	_, err = c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, nil, &p)
	return p, err
}

// AppsPage returns a page of apps, behind a name.
func (c *Client) AppsPage(ctx context.Context, after string, limit int) (wire.Apps, error) {
	return onePage[wire.Apps](ctx, c, "/v1/apps", nil, after, limit)
}

// SubjectsPage returns a page of what Subjects does, behind a name.
func (c *Client) SubjectsPage(ctx context.Context, app, after string, limit int) (wire.Subjects, error) {
	return onePage[wire.Subjects](ctx, c, "/v1/subjects", ofApp(app), after, limit)
}

// TokensPage returns a page of what Tokens does, behind an id.
func (c *Client) TokensPage(ctx context.Context, app, after string, limit int) (wire.Tokens, error) {
	return onePage[wire.Tokens](ctx, c, "/v1/tokens", ofApp(app), after, limit)
}

// RulesPage returns a page of rules, behind a name.
func (c *Client) RulesPage(ctx context.Context, after string, limit int) (wire.Rules, error) {
	return onePage[wire.Rules](ctx, c, "/v1/rules", nil, after, limit)
}

// Apps returns all apps that whoever asks may see, in order of name.
func (c *Client) Apps(ctx context.Context) (all []wire.App, err error) {
	err = listed(ctx, c, "/v1/apps", nil, func(p *wire.Apps) string {
		all = append(all, p.Apps...)
		return p.Next
	})
	return all, err
}

// App returns one app. A *Problem with reason unknown_app says that there is none.
func (c *Client) App(ctx context.Context, name string) (app wire.App, err error) {
	_, err = c.do(ctx, http.MethodGet, path("/v1/apps/", name, nil), nil, nil, &app)
	return app, err
}

// PutApp makes an app or changes it, given as JSON, if it is at the given revision, Always or Absent; a *Problem with
// reason revision_mismatch says that it is not.
// With adopt it may get queues, rules and jobs that are left under the names that it gains.
func (c *Client) PutApp(
	ctx context.Context, name string, app json.RawMessage, revision int64, adopt bool,
) (put wire.App, err error) {
	at := path("/v1/apps/", name, nil)
	if adopt {
		at += "?adopt=true"
	}
	_, err = c.do(ctx, http.MethodPut, at, condition(revision), app, &put)
	return put, err
}

// DeleteApp removes an app, and with it its tokens and subjects.
func (c *Client) DeleteApp(ctx context.Context, name string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, path("/v1/apps/", name, nil), condition(revision), nil, nil)
	return err
}

// Subjects returns the subjects of an app, in order of name; those of whoever asks if it is empty.
func (c *Client) Subjects(ctx context.Context, app string) (all []wire.Subject, err error) {
	err = listed(ctx, c, "/v1/subjects", ofApp(app), func(p *wire.Subjects) string {
		all = append(all, p.Subjects...)
		return p.Next
	})
	return all, err
}

// Subject returns one subject. A *Problem with reason unknown_subject says that there is none.
func (c *Client) Subject(ctx context.Context, name string) (s wire.Subject, err error) {
	_, err = c.do(ctx, http.MethodGet, path("/v1/subjects/", name, nil), nil, nil, &s)
	return s, err
}

// PutSubject makes a subject or changes it, given as JSON, as PutApp does an app.
func (c *Client) PutSubject(
	ctx context.Context, name string, subject json.RawMessage, revision int64,
) (put wire.Subject, err error) {
	_, err = c.do(ctx, http.MethodPut, path("/v1/subjects/", name, nil), condition(revision), subject, &put)
	return put, err
}

// DeleteSubject removes a subject.
func (c *Client) DeleteSubject(ctx context.Context, name string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, path("/v1/subjects/", name, nil), condition(revision), nil, nil)
	return err
}

func ofApp(app string) url.Values {
	if app == "" {
		return nil
	}
	return url.Values{"app": {app}}
}
