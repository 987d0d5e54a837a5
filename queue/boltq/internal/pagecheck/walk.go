package pagecheck

import (
	"bytes"
	"context"
)

type page struct {
	of       *File
	id       uint64
	flags    uint16
	count    uint16
	overflow uint32
	first    []byte // the first page, as on file
}

// page reads a page that is referenced for the first time.
func (f *File) page(id uint64) (*page, error) {
	if id < 2 || id >= f.end {
		return nil, fault(id, "it is referenced, but the file has %d pages", f.end)
	}
	if !f.see(id) {
		return nil, fault(id, "it is referenced twice")
	}
	p := &page{of: f, id: id, first: f.spare}
	if f.spare = nil; p.first == nil {
		p.first = make([]byte, f.pageSize)
	}
	if err := f.read(p.first, int64(id)*f.pageSize); err != nil {
		return nil, err
	}
	if is := order.Uint64(p.first); is != id {
		return nil, fault(id, "claims to be page %d", is)
	}
	p.flags, p.count, p.overflow = order.Uint16(p.first[8:]), order.Uint16(p.first[10:]), order.Uint32(p.first[12:])
	if uint64(p.overflow) >= f.end-id {
		return nil, fault(id, "claims %d overflow pages, but the file has %d pages", p.overflow, f.end)
	}
	for i := range uint64(p.overflow) {
		if !f.see(id + 1 + i) {
			return nil, fault(id+1+i, "it belongs to page %d, but is referenced elsewhere too", id)
		}
	}
	return p, nil
}

func (p *page) size() int64 { return (int64(p.overflow) + 1) * p.of.pageSize }

// bytes returns n bytes at an offset, which the page has. They are valid until the next page is read.
func (p *page) bytes(at, n int64) ([]byte, error) {
	if at+n <= int64(len(p.first)) {
		return p.first[at : at+n], nil
	}
	b := make([]byte, n)
	return b, p.of.read(b, int64(p.id)*p.of.pageSize+at)
}

type entry struct {
	key   []byte
	value []byte // of an entry that is a table
	table bool
	child uint64
}

type walk struct {
	*File
	ctx    context.Context
	table  string // empty for the list of tables
	leaf   func(page uint64, e entry) error
	depth  int // of the leaves, once the first was found
	visits int
}

func (f *File) readTables() error {
	w := walk{File: f, ctx: context.Background(), leaf: func(id uint64, e entry) error {
		if !e.table {
			return fault(id, "the list of tables has an entry that is not a table")
		}
		t := Table{Name: string(e.key), root: order.Uint64(e.value), page: id}
		if t.root == 0 {
			t.inline = bytes.Clone(e.value[bucketSize:])
		}
		f.Tables = append(f.Tables, t)
		return nil
	}}
	if err := w.walk(f.root, nil, nil, 1); err != nil {
		return err
	}
	if len(f.Tables) == 0 && f.end > 4 { // a new file has four pages
		return fault(f.root, "the list of tables is empty, but the file has %d pages", f.end)
	}
	return nil
}

// walkTable walks through a table, which may be stored inline in the list of tables.
func (w *walk) walkTable(t Table) error {
	if t.root != 0 {
		return w.walk(t.root, nil, nil, 1)
	}
	if len(t.inline) < headerSize {
		return fault(t.page, "the record of table %q has only %d bytes", t.Name, len(t.inline))
	}
	// An inline page has no id and no overflow pages.
	p := &page{
		of: w.File, id: t.page, flags: order.Uint16(t.inline[8:]), count: order.Uint16(t.inline[10:]), first: t.inline,
	}
	if p.flags != leafPage || order.Uint64(t.inline) != 0 {
		return fault(t.page, "inline table %q has type %#x", t.Name, p.flags)
	}
	return w.entries(p, int64(len(t.inline)), nil, nil, 1)
}

// walk walks through a page and all below it. Its first key is least, and all keys are before beyond; nil is no bound.
func (w *walk) walk(id uint64, least, beyond []byte, depth int) error {
	if w.visits++; w.visits%1024 == 0 {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		w.progress(int64(w.pages), int64(w.end))
	}
	if depth > maxDepth {
		return fault(id, "the tree of table %q is more than %d pages deep", w.table, maxDepth)
	}
	p, err := w.page(id)
	if err != nil {
		return err
	}
	return w.entries(p, p.size(), least, beyond, depth)
}

// entries checks the entries of a page of that size in bytes.
func (w *walk) entries(p *page, size int64, least, beyond []byte, depth int) error {
	switch p.flags {
	case leafPage:
		if w.depth == 0 {
			w.depth = depth
		}
		if w.depth != depth {
			return fault(p.id, "a leaf at depth %d, but others are at %d", depth, w.depth)
		}
		if p.count == 0 && depth > 1 {
			return fault(p.id, "a leaf without entries")
		}
	case branchPage:
		if p.count == 0 {
			return fault(p.id, "a branch without entries")
		}
	default:
		return fault(p.id, "has type %#x instead of a leaf or branch", p.flags)
	}
	at := headerSize + int64(p.count)*elementSize // where the next entry's key begins: entries are contiguous
	if at > size {
		return fault(p.id, "claims %d entries in %d bytes", p.count, size)
	}
	var last []byte
	var children []entry
	for i := range int64(p.count) {
		e, next, err := p.entry(i, at, size)
		if err != nil {
			return err
		}
		switch {
		case len(e.key) == 0:
			return fault(p.id, "entry %d has no key", i)
		case i > 0 && bytes.Compare(last, e.key) >= 0:
			return fault(p.id, "the key of entry %d is out of order", i)
		case i == 0 && least != nil && !bytes.Equal(e.key, least):
			return fault(p.id, "its first key differs from the key in its parent")
		case beyond != nil && bytes.Compare(e.key, beyond) >= 0:
			return fault(p.id, "the key of entry %d belongs to another page", i)
		}
		at, last = next, append(last[:0], e.key...)
		if p.flags == branchPage {
			e.key = bytes.Clone(e.key)
			children = append(children, e)
			continue
		}
		if e.table && w.table != "" {
			return fault(p.id, "entry %d of table %q is itself a table", i, w.table)
		}
		if err := w.leaf(p.id, e); err != nil {
			return err
		}
	}
	if len(p.first) == int(w.pageSize) {
		w.spare, p.first = p.first, nil
	}
	for i, c := range children {
		to := beyond
		if i+1 < len(children) {
			to = children[i+1].key
		}
		if err := w.walk(c.child, c.key, to, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// entry reads an entry whose key must begin at an offset, and returns where the next entry's key begins.
func (p *page) entry(i, at, size int64) (e entry, next int64, err error) {
	start := headerSize + i*elementSize
	b, err := p.bytes(start, elementSize)
	if err != nil {
		return e, 0, err
	}
	var pos, keySize, valueSize int64
	if p.flags == branchPage {
		pos, keySize, e.child = int64(order.Uint32(b)), int64(order.Uint32(b[4:])), order.Uint64(b[8:])
	} else {
		flags := order.Uint32(b)
		pos, keySize, valueSize = int64(order.Uint32(b[4:])), int64(order.Uint32(b[8:])), int64(order.Uint32(b[12:]))
		if e.table = flags == tableEntry; flags > tableEntry {
			return e, 0, fault(p.id, "entry %d has type %#x", i, flags)
		}
	}
	if start+pos != at {
		return e, 0, fault(p.id, "entry %d is at byte %d instead of %d", i, start+pos, at)
	}
	if at+keySize+valueSize > size {
		return e, 0, fault(p.id, "entry %d of %d bytes does not fit after byte %d", i, keySize+valueSize, at)
	}
	if e.key, err = p.bytes(at, keySize); err != nil || !e.table {
		return e, at + keySize + valueSize, err
	}
	if valueSize < bucketSize {
		return e, 0, fault(p.id, "entry %d is a table with a record of only %d bytes", i, valueSize)
	}
	e.value, err = p.bytes(at+keySize, valueSize)
	return e, at + keySize + valueSize, err
}
