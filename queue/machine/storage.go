package machine

// Transaction is what a store keeps, as of a commit: the tables that Tables names. Whoever owns a Machine has one made
// for each Commit to be written in, and one for each call that reads what memory does not keep.
type Transaction interface {
	Table(name []byte) Table
}

// Table has values by key, in order of key. What its methods return is valid while the transaction is.
type Table interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	// Sequence is a number that is kept with the table.
	Sequence() uint64
	SetSequence(n uint64) error
	Cursor() Cursor
}

// Cursor walks over a table that does not change meanwhile. A nil key is beyond its end.
type Cursor interface {
	First() (key, value []byte)
	Last() (key, value []byte)
	Next() (key, value []byte)
	Prev() (key, value []byte)
	// Seek goes to the first key that is not before the one given.
	Seek(key []byte) (found, value []byte)
}

// tables is a transaction, and what is known of its records.
type tables struct{ Transaction }

// forEach calls do with each value of a table.
func forEach(t Table, do func(key, value []byte) error) error {
	c := t.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		if err := do(k, v); err != nil {
			return err
		}
	}
	return nil
}
