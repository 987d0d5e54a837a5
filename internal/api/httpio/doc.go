// Package httpio reads requests and writes answers, without knowing the operations of the API.
//
// It reads bodies, fields, conditions and pages, writes JSON and RFC 9457 problems, and keeps browsers out (Guard). It
// charges bodies and answers to the client, so memory stays bounded whatever is sent.
//
// It refuses what it does not understand: unknown and duplicate fields, other content types, bodies over the limit.
package httpio
