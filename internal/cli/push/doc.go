// Package push brings the jobs of a file into a queue.
//
// It promises that a push may be broken off anywhere and done again: every job
// has an id that depends on nothing but the file, so that what is in already
// answers duplicate. Jobs enter in the order of the file as long as none is
// refused; refused ones come back when the server said that there is room for
// them, and meanwhile nothing new is read; but when only their lanes are full the
// lines of other lanes go on. Memory is bounded by a few batches, however long the file is.
//
// It refuses to drop anything silently: every line is accepted, deferred,
// duplicate, refused or failed, with its number, and the five add up to what was read.
package push
