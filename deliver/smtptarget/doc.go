// Package smtptarget delivers jobs as mail, over SMTP (RFC 5321).
//
// MAIL FROM, by which a receiver counts, is written at the job's departure and never later than its window. Before that
// the connection is made, secured and logged in to. A recipient that was accepted, and whose message was then taken, is
// not sent the message again by this package. A delivery ends within its target's timeout, and its memory is limited,
// whatever the server answers. Nothing in a payload reaches the server as a command, a parameter or another header. No
// error quotes a password.
//
// The package does not look up MX records, does not queue or bounce mail, and does not log in where others could read
// the password.
package smtptarget
