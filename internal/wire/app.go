package wire

import "github.com/penstock/penstock/internal/auth"

// App is an app and its revision.
type App struct {
	auth.App
	Revision int64 `json:"revision"`
}

// Apps is a page of apps.
type Apps struct {
	Apps []App `json:"apps"`
	// Next is the after of the next page; absent on the last.
	Next string `json:"next,omitempty"`
}
