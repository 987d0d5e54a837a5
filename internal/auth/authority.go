package auth

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/penstock/penstock/queue"
)

// Grace is for how long what is known holds while the store is away.
const Grace = 15 * time.Minute

// Options of an Authority. The zero ones are those of an ingress that takes tokens, certificates and Unix peers.
type Options struct {
	// Log is told what is amiss; nil is nobody.
	Log *slog.Logger
	// Issuers are the providers whose JWTs are taken.
	Issuers []Issuer
}

// Issuer is a provider of JWTs (OIDC).
type Issuer struct {
	// Name is what its subjects are named by, oidc:NAME#VALUE.
	Name string
	// URL is the issuer as it stands in JWTs. Its keys are found by discovery.
	URL string
	// Audience is whom a JWT must be for.
	Audience string
	// Claim is the one whose value names the subject, a text or several; empty is "sub".
	Claim string
	// Client asks the provider; nil is http.DefaultClient.
	Client *http.Client
}

// Authority says who requests come from, by a copy of what the store has.
type Authority struct {
	store queue.Documents
	o     Options
}

var errNotYet = errors.New("auth: not there yet")

// New returns an Authority. It asks nobody before Run. Its error is a *queue.FieldError.
func New(store queue.Documents, o Options) (*Authority, error) {
	return &Authority{store: store, o: o}, nil
}

// Run keeps the copy, until ctx ends. Call it once.
func (a *Authority) Run(ctx context.Context) error { return errNotYet }

// Ready is nil once all of the store was read, and while what was read holds.
func (a *Authority) Ready() error { return errNotYet }

// WithPeer is for http.Server.ConnContext: requests that come over a Unix socket prove by it which user sends them.
func WithPeer(ctx context.Context, c net.Conn) context.Context { return ctx }

// Identify says who sends a request: by its Authorization header, or if it has none by the certificate that its
// connection was made with, or as the user at the other end of a Unix socket. Its error is a *Refusal. It may wait for
// the store, at most a few seconds, to learn of a token that was just made.
func (a *Authority) Identify(r *http.Request) (*Identity, error) { return nil, refuse(Unavailable, "") }

// Watch returns a context that ends when the identity has lost something that it had, within 5 s; context.Cause is then
// a *Refusal. It is for what stays open: streams, and requests that wait.
func (a *Authority) Watch(ctx context.Context, id *Identity) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	cancel(refuse(Unavailable, ""))
	return ctx, func() { cancel(nil) }
}

// What by does without being allowed to is refused by a *Refusal of Forbidden; of what is another app's the answer is
// that it does not exist. Errors are also those of queue.Documents: *queue.FieldError, queue.ErrRevision,
// queue.ErrUnknownDocument. Changes are recorded under the queue.Actor of ctx.

// App returns an app.
func (a *Authority) App(ctx context.Context, by *Identity, name string) (App, error) {
	return App{}, errNotYet
}

// Apps returns up to limit apps behind a name, in order.
func (a *Authority) Apps(ctx context.Context, by *Identity, after string, limit int) ([]App, error) {
	return nil, errNotYet
}

// PutApp makes or changes an app, as queue.Documents.PutDocument does, and returns it as it is then.
func (a *Authority) PutApp(ctx context.Context, by *Identity, app App, expect int64) (App, error) {
	return App{}, errNotYet
}

// DeleteApp ends an app, and with it all of its tokens and subjects at once. Its queues and rules stay, the operator's.
func (a *Authority) DeleteApp(ctx context.Context, by *Identity, name string, expect int64) error {
	return errNotYet
}

// Token returns what is kept of a token.
func (a *Authority) Token(ctx context.Context, by *Identity, id string) (Token, error) {
	return Token{}, errNotYet
}

// Tokens returns up to limit tokens of an app behind an id, in order; of the operator's if it is empty.
func (a *Authority) Tokens(ctx context.Context, by *Identity, app, after string, limit int) ([]Token, error) {
	return nil, errNotYet
}

// CreateToken makes a token with the App, Grants, Expires and Note of t, none of which may be more than by has. secret
// is what its holder keeps, and nobody sees again.
func (a *Authority) CreateToken(ctx context.Context, by *Identity, t Token) (secret string, made Token, err error) {
	return "", Token{}, errNotYet
}

// RotateToken makes a token that may do what another one may, which ends after keep.
func (a *Authority) RotateToken(
	ctx context.Context, by *Identity, id string, keep time.Duration,
) (secret string, made Token, err error) {
	return "", Token{}, errNotYet
}

// DeleteToken revokes a token.
func (a *Authority) DeleteToken(ctx context.Context, by *Identity, id string, expect int64) error {
	return errNotYet
}

// Subject returns a subject.
func (a *Authority) Subject(ctx context.Context, by *Identity, name string) (Subject, error) {
	return Subject{}, errNotYet
}

// Subjects returns up to limit subjects of an app behind a name, in order; of the operator's if it is empty.
func (a *Authority) Subjects(ctx context.Context, by *Identity, app, after string, limit int) ([]Subject, error) {
	return nil, errNotYet
}

// PutSubject makes or changes a subject, as queue.Documents.PutDocument does, and returns it as it is then.
func (a *Authority) PutSubject(ctx context.Context, by *Identity, s Subject, expect int64) (Subject, error) {
	return Subject{}, errNotYet
}

// DeleteSubject deletes a subject.
func (a *Authority) DeleteSubject(ctx context.Context, by *Identity, name string, expect int64) error {
	return errNotYet
}
