package machine

import (
	"strings"
	"sync"
)

// Transaction is the content of a store as of a commit: the tables that Tables names. The owner of a Machine makes one
// for each Commit to be written in, and one for each call that reads what memory does not keep.
type Transaction interface {
	Table(name []byte) Table
}

// Table has values by key, in order of key. Results of its methods are valid while the transaction is.
type Table interface {
	Get(key []byte) []byte
	Put(key, value []byte) error
	Delete(key []byte) error
	// Sequence returns a number that is stored with the table.
	Sequence() uint64
	SetSequence(n uint64) error
	Cursor() Cursor
}

// Cursor walks through a table that does not change meanwhile. A nil key is beyond its end.
type Cursor interface {
	First() (key, value []byte)
	Last() (key, value []byte)
	Next() (key, value []byte)
	Prev() (key, value []byte)
	// Seek moves to the first key that is not before key.
	Seek(key []byte) (found, value []byte)
}

// tables is a transaction with typed access to its records.
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

// Memory is a store in memory, for tests and simulations. Nothing outlives it.
type Memory struct {
	mu     sync.RWMutex
	tables map[string]*memoryTable
	bytes  int64
	undo   []func() // reverts the changes of the current update, in reverse
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	m := &Memory{tables: map[string]*memoryTable{}}
	for _, name := range Tables {
		m.tables[string(name)] = &memoryTable{of: m, records: sorted[*record]{less: byKey}}
	}
	_ = m.Update(Initialise) // it never fails
	return m
}

// Size returns the size of its records in bytes.
func (m *Memory) Size() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.bytes
}

// View calls do with the tables as they are.
func (m *Memory) View(do func(Transaction) error) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return do(m)
}

// Update keeps everything that do puts and deletes or, if do fails, nothing.
func (m *Memory) Update(do func(Transaction) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { clear(m.undo); m.undo = m.undo[:0] }()
	err := do(m)
	if err != nil {
		for i := len(m.undo) - 1; i >= 0; i-- {
			m.undo[i]()
		}
	}
	return err
}

// Table implements Transaction.
func (m *Memory) Table(name []byte) Table { return m.tables[string(name)] }

// memoryTable is a table in memory.
type memoryTable struct {
	of       *Memory
	records  sorted[*record]
	sequence uint64
}

type record struct {
	key   string
	value []byte
}

func byKey(a, b *record) bool { return a.key < b.key }

func (r *record) size() int64 { return int64(len(r.key) + len(r.value)) }

// at returns the position of the first record that is not before key, and the record if it has that key.
func (t *memoryTable) at(key []byte) (b, i int, found *record) {
	b, i = t.records.search(func(r *record) bool { return strings.Compare(r.key, string(key)) >= 0 })
	if b < len(t.records.blocks) {
		if r := t.records.blocks[b][i]; r.key == string(key) {
			found = r
		}
	}
	return b, i, found
}

func (t *memoryTable) Get(key []byte) []byte {
	if _, _, r := t.at(key); r != nil {
		return r.value
	}
	return nil
}

func (t *memoryTable) Put(key, value []byte) error {
	value = append([]byte{}, value...) // an empty value is not nil
	if _, _, r := t.at(key); r != nil {
		was := r.value
		r.value = value
		t.of.bytes += int64(len(value) - len(was))
		t.of.undo = append(t.of.undo, func() {
			r.value = was
			t.of.bytes -= int64(len(value) - len(was))
		})
		return nil
	}
	r := &record{string(key), value}
	t.insert(r)
	t.of.undo = append(t.of.undo, func() { t.remove(r) })
	return nil
}

func (t *memoryTable) Delete(key []byte) error {
	if _, _, r := t.at(key); r != nil {
		t.remove(r)
		t.of.undo = append(t.of.undo, func() { t.insert(r) })
	}
	return nil
}

func (t *memoryTable) insert(r *record) {
	t.records.push(r)
	t.of.bytes += r.size()
}

func (t *memoryTable) remove(r *record) {
	t.records.remove(r)
	t.of.bytes -= r.size()
}

func (t *memoryTable) Sequence() uint64 { return t.sequence }

func (t *memoryTable) SetSequence(n uint64) error {
	was := t.sequence
	t.sequence = n
	t.of.undo = append(t.of.undo, func() { t.sequence = was })
	return nil
}

func (t *memoryTable) Cursor() Cursor { return &memoryCursor{of: &t.records} }

// memoryCursor points at a record, or past the last one.
type memoryCursor struct {
	of   *sorted[*record]
	b, i int
}

func (c *memoryCursor) get() (k, v []byte) {
	if c.b < 0 || c.b >= len(c.of.blocks) {
		return nil, nil
	}
	r := c.of.blocks[c.b][c.i]
	return []byte(r.key), r.value
}

func (c *memoryCursor) First() (k, v []byte) {
	c.b, c.i = 0, 0
	return c.get()
}

func (c *memoryCursor) Last() (k, v []byte) {
	c.b, c.i = len(c.of.blocks), 0
	return c.Prev()
}

func (c *memoryCursor) Next() (k, v []byte) {
	if c.b < len(c.of.blocks) {
		if c.i++; c.b < 0 || c.i == len(c.of.blocks[c.b]) {
			c.b, c.i = c.b+1, 0
		}
	}
	return c.get()
}

func (c *memoryCursor) Prev() (k, v []byte) {
	if c.i--; c.i < 0 && c.b >= 0 {
		if c.b--; c.b >= 0 {
			c.i = len(c.of.blocks[c.b]) - 1
		}
	}
	return c.get()
}

func (c *memoryCursor) Seek(key []byte) (k, v []byte) {
	c.b, c.i = c.of.search(func(r *record) bool { return strings.Compare(r.key, string(key)) >= 0 })
	return c.get()
}
