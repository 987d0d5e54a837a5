package client

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

// Tokens returns the tokens of an app, by id. The default app is the caller's own; for operators, all apps.
func (c *Client) Tokens(ctx context.Context, app string) (all []wire.Token, err error) {
	err = listed(ctx, c, "/v1/tokens", ofApp(app), func(p *wire.Tokens) string {
		all = append(all, p.Tokens...)
		return p.Next
	})
	return all, err
}

// Token returns a token without its secret, or a *Problem with reason unknown_token.
func (c *Client) Token(ctx context.Context, id string) (t wire.Token, err error) {
	_, err = c.do(ctx, http.MethodGet, client.Path("v1", "tokens", id), nil, nil, &t)
	return t, err
}

// CreateToken creates a token. Its secret is only in the answer. After an *Unreachable the token may have been created.
func (c *Client) CreateToken(ctx context.Context, ask wire.TokenRequest) (made wire.MadeToken, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/tokens", nil, ask, &made)
	return made, err
}

// RotateToken replaces a token by a new one with the same permissions. The old one keeps working for keep.
func (c *Client) RotateToken(ctx context.Context, id string, keep time.Duration) (made wire.MadeToken, err error) {
	ask := wire.Rotation{Keep: unit.Duration(keep)}
	_, err = c.do(ctx, http.MethodPost, client.Path("v1", "tokens", id, "rotate"), nil, ask, &made)
	return made, err
}

// DeleteToken revokes a token.
func (c *Client) DeleteToken(ctx context.Context, id string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, client.Path("v1", "tokens", id), condition(revision), nil, nil)
	return err
}

// OpenSession exchanges the caller's token for a session, which ends after 12 hours. A session cannot open another one.
func (c *Client) OpenSession(ctx context.Context) (made wire.MadeToken, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/session", nil, nil, &made)
	return made, err
}

// CloseSession ends the caller's session.
func (c *Client) CloseSession(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/session", nil, nil, nil)
	return err
}

// Whoami returns the caller's identity.
func (c *Client) Whoami(ctx context.Context) (who wire.Whoami, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/whoami", nil, nil, &who)
	return who, err
}
