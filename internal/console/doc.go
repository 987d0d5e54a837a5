// Package console is the web console: pages for people, built on the API of an ingress.
//
// It adds no rules of its own. Each page and each button calls the API's handler in the same process with the session
// of the signed-in user. The API alone decides what a user may see and do, and records it; a program can do everything
// that the console does. Pages work without JavaScript, which only keeps them up to date. They load nothing from other
// sites and contain no inline scripts.
//
// It stores nothing. The user's session token is in a cookie: it survives restarts, works at every ingress of a store,
// and ends when the token is revoked.
//
// To add a page, add a row to the table in pages.go, a file beside it, and a template of the same name.
package console
