// Package attention finds the problems of queues and of a store that need a person, and the fix of each. The API, the
// console and penstock doctor use the same checks.
//
// It is pure: it reads nothing and changes nothing. It does not judge what only the machine of a server shows, such as
// the settings of its Redis.
package attention
