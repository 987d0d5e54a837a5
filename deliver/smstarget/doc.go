// Package smstarget sends texts by the API of a provider.
//
// It promises that a text which a handset can never get is refused on its job's arrival, that a job costs as many
// intervals as its text has parts, counted as handsets count them, and that a text of which nobody can know whether it
// was sent is not sent again before the provider was asked, and not behind the user's back then. Nothing it says quotes
// a secret.
//
// It refuses to guess: a text that the provider does not list may still be under way, and counts as unsent only where
// the queue's setting says so.
package smstarget
