// Package smtptarget delivers jobs as mail, over SMTP (RFC 5321).
//
// It promises that MAIL FROM, by which a receiver counts, is written at the job's departure and never later than its
// window: a connection is made, secured and logged in to before. It promises that a recipient who was accepted, and
// whose message was then taken, is not sent to again by itself; that a delivery ends within its target's time, and
// takes bounded memory, whatever the server answers; that nothing in a payload reaches the server as a command, a
// parameter or another header; and that no error quotes a password.
//
// It refuses to look up MX records, to queue or bounce by itself, and to log in where others could read the password.
package smtptarget
