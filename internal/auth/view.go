package auth

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// view is the compact copy of the store's documents. Of a token it has the digest and the permissions.
type view struct {
	apps     map[string]*App
	tokens   map[string]*heldToken
	subjects map[string]*Subject
	uses     [useShards]document.Document // days of the last uses
}

// heldToken is a token in memory. There may be 100,000 of them.
type heldToken struct {
	proof      proof
	grants     grants
	app        string
	appCreated int64 // microseconds
	expires    int64 // microseconds; 0 means never
	revision   int64
	revoked    int64        // microseconds: when the revocation was seen; 0 if not revoked
	session    *session     // nil for other tokens
	used       atomic.Int32 // day of the last use here, since 1970
}

func newView() *view {
	return &view{
		apps: map[string]*App{}, tokens: map[string]*heldToken{}, subjects: map[string]*Subject{},
	}
}

// documents returns the number of documents.
func (v *view) documents() int { return len(v.apps) + len(v.tokens) + len(v.subjects) }

// apply applies a document. An unreadable document counts as deleted, so that nobody gains permissions by it; apply
// then returns an error.
func (v *view) apply(d *document.Document, now time.Time) error {
	var err error
	switch d.Kind {
	case KindApp:
		err = v.applyApp(d)
	case KindToken:
		err = v.applyToken(d, now)
	case KindSubject:
		err = v.applySubject(d)
	case kindUse:
		if n, ok := shardNamed(d.Name); ok && d.Revision > v.uses[n].Revision {
			v.uses[n] = *d
		}
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", d.Kind, clip.Quote(d.Name, 80), err)
	}
	return nil
}

func (v *view) applyApp(d *document.Document) (err error) {
	if old := v.apps[d.Name]; old != nil && old.Revision >= d.Revision {
		return nil
	}
	var app App
	if d.Text != nil {
		if app, err = readApp(d); err == nil {
			v.apps[d.Name] = &app
			return nil
		}
	}
	delete(v.apps, d.Name)
	return err
}

func (v *view) applySubject(d *document.Document) (err error) {
	if old := v.subjects[d.Name]; old != nil && old.Revision >= d.Revision {
		return nil
	}
	var s Subject
	if d.Text != nil {
		if s, err = readSubject(d); err == nil {
			v.subjects[d.Name] = &s
			return nil
		}
	}
	delete(v.subjects, d.Name)
	return err
}

func (v *view) applyToken(d *document.Document, now time.Time) error {
	old := v.tokens[d.Name]
	if old != nil && old.revision >= d.Revision {
		return nil
	}
	held := &heldToken{revision: d.Revision}
	var err error
	if d.Text != nil {
		if err = held.read(d); err == nil {
			if app := v.apps[held.app]; app != nil {
				held.app = app.Name // shares one string among all tokens of an app
			}
			if old != nil {
				held.used.Store(old.used.Load())
			}
			v.tokens[d.Name] = held
			return nil
		}
	}
	// Keep the digest, so that the holder is told that the token was revoked. That is impossible for a token that was
	// never known here.
	if old != nil {
		held.proof, held.revoked = old.proof, now.UnixMicro()
		v.tokens[d.Name] = held
	}
	return err
}

func (h *heldToken) read(d *document.Document) error {
	t, err := readToken(d)
	if err != nil {
		return err
	}
	if h.proof, err = proofOf(t.Digest); err != nil {
		return err
	}
	h.grants, h.app, h.appCreated = compact(t.Grants), t.App, micros(t.AppCreated)
	h.expires = micros(t.Expires)
	if t.SessionOf != "" {
		h.session = &session{t.SessionOf, t.Creator}
	}
	return nil
}

func readApp(d *document.Document) (a App, err error) {
	err = read(d, &a)
	a.Name, a.Revision = d.Name, d.Revision
	return a, err
}

func readToken(d *document.Document) (t Token, err error) {
	err = read(d, &t)
	t.ID, t.Revision = d.Name, d.Revision
	return t, err
}

func readSubject(d *document.Document) (s Subject, err error) {
	err = read(d, &s)
	s.Name, s.Revision = d.Name, d.Revision
	return s, err
}

func read(d *document.Document, into any) error {
	if err := json.Unmarshal(d.Text, into); err != nil {
		return fmt.Errorf("%w: %s %s cannot be read", queue.ErrCorrupt, d.Kind, d.Name)
	}
	return nil
}

// micros returns a time in microseconds, 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// appOf returns the app with this name and time of creation. found is false if that app was deleted. The empty name
// stands for the operator, who has no app: appOf then returns nil and true.
func (v *view) appOf(name string, created int64) (app *App, found bool) {
	if name == "" {
		return nil, true
	}
	app = v.apps[name]
	if app == nil || micros(app.Created) != created {
		return nil, false
	}
	return app, true
}
