package boltq

import "github.com/penstock/penstock/queue/machine"

// storage keeps the tables of a store: in a file, or in memory.
type storage interface {
	// view shows do the tables as they are; what it sees is valid until it returns.
	view(do func(machine.Transaction) error) error
	// update makes what do puts and deletes durable, all of it or, with an error, nothing. Only after an error of the
	// disk may it be there all the same.
	update(do func(machine.Transaction) error) error
	// usage is how many bytes the tables have, and how many of those are free.
	usage() (size, free int64)
	Close() error
}

// inMemory is a storage that nothing outlives, and that writes faster than any disk.
type inMemory struct{ *machine.Memory }

func (m inMemory) view(do func(machine.Transaction) error) error { return m.View(do) }

func (m inMemory) update(do func(machine.Transaction) error) error { return m.Update(do) }

func (m inMemory) usage() (size, free int64) { return m.Size(), 0 }

func (inMemory) Close() error { return nil }
