// Package push appends the jobs of a file to a queue.
//
// It promises that an interrupted push can be repeated: ids depend only on the file, so jobs that were already accepted
// are answered as duplicates. Jobs enter in the order of the file as long as none is refused. Refused jobs are sent
// again when the server says, and meanwhile no more lines are read. If only some lanes are full, the lines of other
// lanes go on. Memory is limited to a few batches.
//
// It never drops a line silently: every line is counted as accepted, deferred, duplicate, refused or failed.
package push
