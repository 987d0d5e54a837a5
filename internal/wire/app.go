package wire

import "github.com/penstock/penstock/internal/auth"

// App is an app as it stands.
type App struct {
	auth.App
	Revision int64 `json:"revision"`
}

// Apps is a page of the list of apps.
type Apps struct {
	Apps []App `json:"apps"`
	// Next is what to give as after for the next page; absent on the last one.
	Next string `json:"next,omitempty"`
}
