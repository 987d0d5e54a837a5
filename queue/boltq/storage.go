package boltq

// storage keeps the tables of a store: in a file, or in memory.
type storage interface {
	// view shows do the tables as they are; what it sees is valid until it returns.
	view(do func(*tables) error) error
	// update makes what do puts and deletes durable, all of it or, with an error, nothing. Only after an error of the
	// disk may it be there all the same.
	update(do func(*tables) error) error
	// usage is how many bytes the tables have, and how many of those are free.
	usage(t *tables) (size, free int64)
	Close() error
}

// transaction is what view and update show.
type transaction interface {
	// table returns a table, nil if there is none.
	table(name []byte) table
	create(name []byte) error
	// blank reports whether there are no tables.
	blank() bool
}

// table has values by key, in order of key. bbolt's buckets say what its methods return.
type table interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	// Sequence is a number that is kept with the table.
	Sequence() uint64
	SetSequence(n uint64) error
	cursor() cursor
}

// cursor walks over a table that does not change meanwhile. A nil key is beyond its end.
type cursor interface {
	First() (key, value []byte)
	Last() (key, value []byte)
	Next() (key, value []byte)
	Prev() (key, value []byte)
	// Seek goes to the first key that is not before the one given.
	Seek(key []byte) (found, value []byte)
}

// forEach calls do with each value of a table.
func forEach(t table, do func(key, value []byte) error) error {
	c := t.cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := do(k, v); err != nil {
			return err
		}
	}
	return nil
}
