// Package deliver hands jobs to targets: a [Router] reads a queue's deliver setting and hands the job to the kind of
// target that it names. Each kind has a package of its own: httptarget, smtptarget, smstarget, asynqtarget and
// natstarget.
//
// Errors about a setting name the field, and never quote a secret of the setting. A queue without a usable target costs
// its jobs no attempt.
package deliver
