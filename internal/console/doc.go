// Package console is the web console: pages for people over the API of an ingress.
//
// It promises to add no rule of its own. Each page reads, and each button acts, through the API's handler in the same
// process, by the token of who is signed in. So what a person may see and do, and what is recorded of it, is decided in
// one place, and whatever the console does a program can do as well. Pages can be read without
// JavaScript, which only keeps them up to date. Nothing in a page comes from elsewhere, and no script stands in one.
//
// It refuses to keep anything. Who is signed in is in a cookie of his browser, which holds his token: it survives
// restarts, is good at every ingress of a store, and is worth nothing once the token is revoked.
//
// A new page is a row in the table of pages.go, a file beside it and a template of the same name.
package console
