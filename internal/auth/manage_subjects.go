package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/queue"
)

// Subject returns a subject.
func (a *Authority) Subject(ctx context.Context, by *Identity, name string) (Subject, error) {
	unknown := document.Unknown(KindSubject, name)
	if ValidateSubjectName(name) != nil {
		return Subject{}, unknown
	}
	d, err := a.store.Document(ctx, KindSubject, name)
	if err != nil {
		return Subject{}, err
	}
	s, err := readSubject(&d)
	if err != nil {
		return Subject{}, err
	}
	if err := by.mayManage(s.App, s.Grants, unknown); err != nil {
		return Subject{}, err
	}
	return s, nil
}

// Subjects returns up to limit subjects of an app after a name, in order. Without an app, operators get all. Subjects
// with more permissions than the caller are left out.
func (a *Authority) Subjects(ctx context.Context, by *Identity, app, after string, limit int) ([]Subject, error) {
	unknown := document.Unknown(KindApp, app)
	if err := by.mayManage(app, nil, unknown); err != nil {
		return nil, err
	}
	if err := a.fresh(ctx); err != nil {
		return nil, err
	}
	a.replica.mu.RLock()
	defer a.replica.mu.RUnlock()
	v := a.replica.view
	if app != "" && v.apps[app] == nil {
		return nil, unknown
	}
	found := listed(v.subjects, after, limit, func(_ string, s *Subject) bool {
		if app == "" && by.isOperator() {
			_, holds := v.appOf(s.App, micros(s.AppCreated))
			return holds
		}
		return s.App == app && by.mayManage(app, s.Grants, unknown) == nil
	})
	subjects := make([]Subject, len(found))
	for n := range found {
		subjects[n] = *found[n]
	}
	return subjects, nil
}

// PutSubject creates or updates a subject, as document.Documents.PutDocument does, and returns the result. With
// ErrRevision it returns a Subject with only the present revision. Only operators may do this: an app cannot know whose
// a certificate or an account is, and could take over another's.
func (a *Authority) PutSubject(ctx context.Context, by *Identity, s Subject, expect int64) (Subject, error) {
	if err := by.mustBeOperator(); err != nil {
		return Subject{}, err
	}
	app, err := a.appNamed(ctx, s.App)
	if err != nil {
		return Subject{}, err
	}
	if err := s.validate(app, time.Now()); err != nil {
		return Subject{}, err
	}
	if s.Expires, err = by.ending(s.Expires); err != nil {
		return Subject{}, err
	}
	if app != nil {
		s.AppCreated = app.Created
	}
	old, err := a.Subject(ctx, by, s.Name)
	switch {
	case err == nil:
		s.Created, s.Creator, s.New = old.Created, old.Creator, false
	case errors.Is(err, document.ErrUnknown):
		s.Created, s.Creator, s.New = now(), by.Actor.Name, true
	default:
		return Subject{}, err
	}
	if expect != queue.AnyRevision && expect != old.Revision {
		return Subject{Revision: old.Revision}, fmt.Errorf("subject %s: %w", s.Name, queue.ErrRevision)
	}
	if s.Revision, err = a.put(ctx, KindSubject, s.Name, &s, expect); err != nil {
		return Subject{Revision: s.Revision}, err
	}
	return s, nil
}

// DeleteSubject deletes a subject. With ErrRevision it returns the present revision.
func (a *Authority) DeleteSubject(ctx context.Context, by *Identity, name string, expect int64) (int64, error) {
	if _, err := a.Subject(ctx, by, name); err != nil {
		return 0, err
	}
	return a.remove(ctx, KindSubject, name, expect)
}
