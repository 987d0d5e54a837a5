package boltq

import "github.com/penstock/penstock/queue/machine"

type storage interface {
	// view calls do with the tables as they are; results are valid until it returns.
	view(do func(machine.Transaction) error) error
	// update makes everything that do puts and deletes durable, or nothing if it returns an error. Only after a disk
	// error may the changes be there all the same.
	update(do func(machine.Transaction) error) error
	// usage returns the size of the tables in bytes, and how much of it is free.
	usage() (size, free int64)
	Close() error
}

// inMemory is a storage that nothing outlives, and that writes faster than any disk.
type inMemory struct{ *machine.Memory }

func (m inMemory) view(do func(machine.Transaction) error) error { return m.View(do) }

func (m inMemory) update(do func(machine.Transaction) error) error { return m.Update(do) }

func (m inMemory) usage() (size, free int64) { return m.Size(), 0 }

func (inMemory) Close() error { return nil }
