// Package smstarget sends text messages (SMS) by a provider's API.
//
// A text that a handset can never get is refused on its job's arrival. A job costs as many intervals as its text has
// segments, counted as handsets count them. If it is unknown whether a text was sent, the provider is asked before the
// text is sent again. Errors never quote a secret.
//
// A text that the provider does not list may still be under way. It counts as unsent only if the queue's setting says
// so.
package smstarget
