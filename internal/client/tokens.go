package client

import (
	"context"
	"net/http"
	"time"

	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/unit"
)

// Tokens returns the tokens of an app, in order of id; those of whoever asks if it is empty.
func (c *Client) Tokens(ctx context.Context, app string) (all []wire.Token, err error) {
	err = listed(ctx, c, "/v1/tokens", ofApp(app), func(p *wire.Tokens) string {
		all = append(all, p.Tokens...)
		return p.Next
	})
	return all, err
}

// Token returns what is known of one token. A *Problem with reason unknown_token says that there is none.
func (c *Client) Token(ctx context.Context, id string) (t wire.Token, err error) {
	_, err = c.do(ctx, http.MethodGet, path("/v1/tokens/", id, nil), nil, nil, &t)
	return t, err
}

// CreateToken makes a token. Its secret is in the answer, and nowhere else. After an *Unreachable it may have been
// made.
func (c *Client) CreateToken(ctx context.Context, ask wire.TokenRequest) (made wire.MadeToken, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/tokens", nil, ask, &made)
	return made, err
}

// RotateToken makes a token that may do what another one may, which ends after keep.
func (c *Client) RotateToken(ctx context.Context, id string, keep time.Duration) (made wire.MadeToken, err error) {
	ask := wire.Rotation{Keep: unit.Duration(keep)}
	_, err = c.do(ctx, http.MethodPost, path("/v1/tokens/", id, []string{"rotate"}), nil, ask, &made)
	return made, err
}

// DeleteToken revokes a token.
func (c *Client) DeleteToken(ctx context.Context, id string, revision int64) error {
	_, err := c.do(ctx, http.MethodDelete, path("/v1/tokens/", id, nil), condition(revision), nil, nil)
	return err
}

// OpenSession exchanges the token of the caller for one that ends after 12 hours. A session cannot open another one.
func (c *Client) OpenSession(ctx context.Context) (made wire.MadeToken, err error) {
	_, err = c.do(ctx, http.MethodPost, "/v1/session", nil, nil, &made)
	return made, err
}

// CloseSession ends the session that the caller shows.
func (c *Client) CloseSession(ctx context.Context) error {
	_, err := c.do(ctx, http.MethodDelete, "/v1/session", nil, nil, nil)
	return err
}

// Whoami returns who the server takes the caller for.
func (c *Client) Whoami(ctx context.Context) (who wire.Whoami, err error) {
	_, err = c.do(ctx, http.MethodGet, "/v1/whoami", nil, nil, &who)
	return who, err
}
