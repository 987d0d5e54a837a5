// Package pagecheck finds damage in a bbolt file before bbolt opens it.
//
// It promises to look at every page that bbolt would follow, and never to panic, whatever the file contains. It reads
// the file without mapping it, so a file that is cut while it is read causes an error and no signal. It does not look
// at the contents of values.
package pagecheck

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The layout of a bbolt file. Numbers are in the byte order of the machine.
const (
	headerSize  = 16 // of a page: id, flags, count, overflow
	elementSize = 16 // of an entry in a leaf or branch page
	bucketSize  = 16 // of a table's record: its root page and its sequence
	metaSize    = 64 // of a meta page behind its header
	metaSummed  = 56 // bytes of it that are in its checksum

	magic   = 0xED0CDAED
	version = 2

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	tableEntry = 0x01 // flag of an entry that is a table

	noFreelist = ^uint64(0) // in a file that does not store a freelist
	longCount  = 0xFFFF     // in a freelist the true count precedes its ids

	leastPageSize, mostPageSize = 1 << 10, 16 << 20
	maxDepth                    = 64 // a tree this deep would have more pages than any file
)

var order = binary.NativeEndian

// ErrForeign says that a file is neither a bbolt file nor the remains of one.
var ErrForeign = errors.New("not a bbolt file")

// Fault is the first damage found.
type Fault struct {
	Page uint64
	What string
}

func (f *Fault) Error() string { return fmt.Sprintf("page %d: %s", f.Page, f.What) }

func fault(page uint64, format string, args ...any) error {
	return &Fault{page, fmt.Sprintf(format, args...)}
}

type meta struct {
	pageSize            int64
	root, freelist, end uint64 // end is the first page that the file does not have
	txid                uint64
}

// Table is a table of the file.
type Table struct {
	Name   string
	root   uint64 // 0 if the table is stored in its record
	inline []byte
	page   uint64 // has its record
}

// File is a file whose meta pages, length and list of tables are sound.
type File struct {
	meta
	r      io.ReaderAt
	size   int64
	Tables []Table
	// OneMeta is set if one of the two meta pages is damaged. A power cut during a commit does that: the file is then
	// as of the commit before.
	OneMeta bool

	metaPage uint64   // the one that counts
	seen     []uint64 // a bit for each referenced page
	spare    []byte   // buffer for the next page
	pages    uint64   // number of referenced pages
	records  int64
	progress func(pages, all int64)
}

// Counts is what a check looked at.
type Counts struct{ Pages, Records int64 }

// Open reads the meta pages, the list of free pages and the list of tables. Errors: ErrForeign, *Fault, the reader's.
func Open(r io.ReaderAt, size int64) (*File, error) {
	f := &File{r: r, size: size, progress: func(int64, int64) {}}
	if err := f.readMetas(); err != nil {
		return nil, err
	}
	f.seen = make([]uint64, f.end/64+1)
	f.see(0)
	f.see(1)
	if err := f.checkFreelist(); err != nil {
		return nil, err
	}
	return f, f.readTables()
}

// Check checks the pages of every table. progress is called now and then, and may be nil. Errors: *Fault, the reader's,
// ctx's.
func (f *File) Check(ctx context.Context, progress func(pages, all int64)) (Counts, error) {
	if progress != nil {
		f.progress = progress
	}
	for _, t := range f.Tables {
		w := walk{File: f, ctx: ctx, table: t.Name, leaf: func(uint64, entry) error { f.records++; return nil }}
		if err := w.walkTable(t); err != nil {
			return Counts{}, err
		}
	}
	f.progress(int64(f.pages), int64(f.end))
	return Counts{int64(f.pages), f.records}, nil
}

// PageSize returns the size of a page in bytes.
func (f *File) PageSize() int64 { return f.pageSize }

// readMetas chooses the newer of the two meta pages, as bbolt does.
func (f *File) readMetas() error {
	first, err := f.readMeta(0)
	if err != nil {
		return err
	}
	var second *meta
	for size := int64(leastPageSize); size <= mostPageSize && second == nil; size *= 2 {
		if first != nil && size != first.pageSize {
			continue
		}
		if second, err = f.readMeta(size); err != nil {
			return err
		}
		if second != nil && second.pageSize != size {
			second = nil
		}
	}
	switch {
	case first == nil && second == nil:
		return f.remains()
	case second == nil || first != nil && first.txid > second.txid:
		f.meta, f.metaPage = *first, 0
	default:
		f.meta, f.metaPage = *second, 1
	}
	f.OneMeta = first == nil || second == nil
	return f.checkMeta()
}

// checkMeta checks that the file has what the meta page says.
func (f *File) checkMeta() error {
	at := f.metaPage
	switch {
	case f.pageSize < leastPageSize || f.pageSize > mostPageSize || f.pageSize&(f.pageSize-1) != 0:
		return fault(at, "claims pages of %d bytes", f.pageSize)
	case f.end < 4 || f.end > uint64(f.size/f.pageSize):
		return fault(at, "the file has %d bytes instead of %d pages of %d bytes: it was truncated or not copied completely",
			f.size, f.end, f.pageSize)
	case f.root < 2 || f.root >= f.end:
		return fault(at, "the list of tables is at page %d of %d", f.root, f.end)
	}
	return nil
}

// readMeta reads the meta page at an offset, or returns nil if there is no valid one.
func (f *File) readMeta(at int64) (*meta, error) {
	b := make([]byte, headerSize+metaSize)
	if at+int64(len(b)) > f.size {
		return nil, nil
	}
	if err := f.read(b, at); err != nil {
		return nil, err
	}
	return parseMeta(b[headerSize:]), nil
}

func parseMeta(b []byte) *meta {
	sum := fnv.New64a()
	_, _ = sum.Write(b[:metaSummed])
	if order.Uint32(b) != magic || order.Uint32(b[4:]) != version || order.Uint64(b[metaSummed:]) != sum.Sum64() {
		return nil
	}
	return &meta{
		pageSize: int64(order.Uint32(b[8:])), root: order.Uint64(b[16:]), freelist: order.Uint64(b[32:]),
		end: order.Uint64(b[40:]), txid: order.Uint64(b[48:]),
	}
}

// remains distinguishes a bbolt file without a sound meta page from any other file.
func (f *File) remains() error {
	damaged := fault(0, "both meta pages are damaged")
	begin := make([]byte, min(f.size, 64<<10))
	if err := f.read(begin, 0); err != nil {
		return err
	}
	zeros := true
	for _, c := range begin {
		zeros = zeros && c == 0
	}
	if zeros {
		return damaged
	}
	for at := 0; at+headerSize+4 <= len(begin); at += leastPageSize {
		if order.Uint32(begin[at+headerSize:]) == magic {
			return damaged
		}
	}
	for size := leastPageSize; size <= len(begin)/3; size *= 2 { // the pages after the two meta pages
		if id := order.Uint64(begin[2*size:]); id == 2 && order.Uint16(begin[2*size+8:]) <= freelistPage {
			return damaged
		}
	}
	return ErrForeign
}

// checkFreelist checks the list of free pages, if the file keeps one.
func (f *File) checkFreelist() error {
	if f.freelist == noFreelist {
		return nil
	}
	p, err := f.page(f.freelist)
	if err != nil {
		return err
	}
	if p.flags != freelistPage {
		return fault(p.id, "the list of free pages has type %#x", p.flags)
	}
	at, count := int64(headerSize), uint64(p.count)
	if p.count == longCount {
		b, err := p.bytes(at, 8)
		if err != nil {
			return err
		}
		at, count = at+8, order.Uint64(b)
	}
	if count > uint64(p.size()-at)/8 {
		return fault(p.id, "the list of free pages claims %d entries", count)
	}
	for last := uint64(1); count > 0; count-- {
		b, err := p.bytes(at, 8)
		if err != nil {
			return err
		}
		id := order.Uint64(b)
		if id <= last || id >= f.end {
			return fault(p.id, "the list of free pages has page %d after page %d, in a file of %d pages", id, last, f.end)
		}
		f.see(id)
		at, last = at+8, id
	}
	return nil
}

// see marks a page as referenced, and reports whether it was not before.
func (f *File) see(id uint64) bool {
	bit := uint64(1) << (id % 64)
	if f.seen[id/64]&bit != 0 {
		return false
	}
	f.seen[id/64] |= bit
	f.pages++
	return true
}

// read fills b. A file that ends before is damaged: it was longer when it was opened.
func (f *File) read(b []byte, at int64) error {
	n, err := f.r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fault(0, "the file ends at byte %d", at+int64(n))
	}
	return fmt.Errorf("reading at byte %d: %w", at, err)
}
