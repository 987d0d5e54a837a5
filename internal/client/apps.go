package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/wire"
)

// listed reads all pages of a list. next returns the after of the following page, or "".
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

// onePage reads a page of up to limit entries after a name.
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

// AppsPage returns a page of apps after a name.
func (c *Client) AppsPage(ctx context.Context, after string, limit int) (wire.Apps, error) {
	return onePage[wire.Apps](ctx, c, "/v1/apps", nil, after, limit)
}

// SubjectsPage returns a page of an app's subjects after a name.
func (c *Client) SubjectsPage(ctx context.Context, app, after string, limit int) (wire.Subjects, error) {
	return onePage[wire.Subjects](ctx, c, "/v1/subjects", ofApp(app), after, limit)
}

// TokensPage returns a page of an app's tokens after an id.
func (c *Client) TokensPage(ctx context.Context, app, after string, limit int) (wire.Tokens, error) {
	return onePage[wire.Tokens](ctx, c, "/v1/tokens", ofApp(app), after, limit)
}

// RulesPage returns a page of rules after a name.
func (c *Client) RulesPage(ctx context.Context, after string, limit int) (wire.Rules, error) {
	return onePage[wire.Rules](ctx, c, "/v1/rules", nil, after, limit)
}

// Apps returns all apps that the caller may see, by name.
func (c *Client) Apps(ctx context.Context) (all []wire.App, err error) {
	err = listed(ctx, c, "/v1/apps", nil, func(p *wire.Apps) string {
		all = append(all, p.Apps...)
		return p.Next
	})
	return all, err
}

// App returns an app, or a *Problem with reason unknown_app.
func (c *Client) App(ctx context.Context, name string) (app wire.App, err error) {
	_, err = c.do(ctx, http.MethodGet, client.Path("v1", "apps", name), nil, nil, &app)
	return app, err
}

// PutApp creates or updates an app, given as JSON, if it is at the given revision, Always or Absent. Otherwise it
// returns a *Problem with reason revision_mismatch. With adopt, the app takes over queues, rules and jobs under the
// names that it gains.
func (c *Client) PutApp(
	ctx context.Context, name string, app json.RawMessage, revision int64, adopt bool,
) (put wire.App, err error) {
	at := client.Path("v1", "apps", name)
	if adopt {
		at += "?adopt=true"
	}
	_, err = c.do(ctx, http.MethodPut, at, condition(revision), app, &put)
	return put, err
}

// DeleteApp deletes an app with its tokens and subjects.
func (c *Client) DeleteApp(ctx context.Context, name string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, client.Path("v1", "apps", name), condition(revision), nil, nil)
	return err
}

// Subjects returns the subjects of an app, by name. The default app is the caller's own.
func (c *Client) Subjects(ctx context.Context, app string) (all []wire.Subject, err error) {
	err = listed(ctx, c, "/v1/subjects", ofApp(app), func(p *wire.Subjects) string {
		all = append(all, p.Subjects...)
		return p.Next
	})
	return all, err
}

// Subject returns a subject, or a *Problem with reason unknown_subject.
func (c *Client) Subject(ctx context.Context, name string) (s wire.Subject, err error) {
	_, err = c.do(ctx, http.MethodGet, client.Path("v1", "subjects", name), nil, nil, &s)
	return s, err
}

// PutSubject creates or updates a subject, given as JSON. The revision is as in PutApp.
func (c *Client) PutSubject(
	ctx context.Context, name string, subject json.RawMessage, revision int64,
) (put wire.Subject, err error) {
	_, err = c.do(ctx, http.MethodPut, client.Path("v1", "subjects", name), condition(revision), subject, &put)
	return put, err
}

// DeleteSubject deletes a subject.
func (c *Client) DeleteSubject(ctx context.Context, name string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, client.Path("v1", "subjects", name), condition(revision), nil, nil)
	return err
}

func ofApp(app string) url.Values {
	if app == "" {
		return nil
	}
	return url.Values{"app": {app}}
}
