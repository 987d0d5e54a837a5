// Package deliver hands jobs to targets: a [Router] looks at a queue's deliver setting and hands the job to the
// kind of target that it names. Each kind has a package of its own below this one: httptarget, smtptarget,
// smstarget, asynqtarget and natstarget.
//
// It promises that what a target cannot use is said with the field's name, that a queue without a usable target
// costs its jobs no attempt, and that nothing that it says quotes a secret of a setting.
package deliver
