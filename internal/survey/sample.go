package survey

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/series"
	"github.com/penstock/penstock/queue/names"
)

// keptSample is a sample of all queues as the store keeps it. Encoded, it is a byte with the version of the layout and
// a deflated list of numbers and texts.
type keptSample struct {
	at       time.Time
	versions map[string]bool
	marks    []Mark
	rows     []keptRow
}

type keptRow struct {
	name   string
	sample sample
}

const (
	sampleVersion  = 1
	maxSampleMarks = 256     // the latest
	maxUnpacked    = 8 << 20 // of a sample, to refuse damaged ones
)

// encode returns the sample in at most series.MaxBytes. If not all queues fit, those with the fewest jobs are left out.
func (k *keptSample) encode() []byte {
	slices.SortFunc(k.rows, func(a, b keptRow) int {
		if d := b.sample[depth] - a.sample[depth]; d != 0 {
			return int(math.Copysign(1, d))
		}
		return strings.Compare(a.name, b.name)
	})
	rows := k.rows
	for {
		data := k.encodeRows(slices.Clone(rows))
		if len(data) <= series.MaxBytes {
			return data
		}
		rows = rows[:len(rows)*3/4]
	}
}

func (k *keptSample) encodeRows(rows []keptRow) []byte {
	e := encoder{}
	e.int(k.at.UnixMicro())
	versions := slices.Sorted(maps.Keys(k.versions))
	e.uint(uint64(len(versions)))
	for _, v := range versions {
		e.text(v)
	}
	marks := k.marks[max(0, len(k.marks)-maxSampleMarks):]
	e.uint(uint64(len(marks)))
	for _, m := range marks {
		e.int(k.at.Sub(m.At).Microseconds())
		e.text(m.Queue)
		e.text(string(m.Kind))
		e.text(m.Text)
	}
	slices.SortFunc(rows, func(a, b keptRow) int { return strings.Compare(a.name, b.name) })
	e.uint(uint64(len(rows)))
	before := ""
	for i := range rows {
		e.row(before, &rows[i])
		before = rows[i].name
	}
	var packed bytes.Buffer
	packed.WriteByte(sampleVersion)
	w, err := flate.NewWriter(&packed, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(e.b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		panic(err) // writing to a buffer does not fail
	}
	return packed.Bytes()
}

type encoder struct{ b []byte }

func (e *encoder) int(n int64)   { e.b = binary.AppendVarint(e.b, n) }
func (e *encoder) uint(n uint64) { e.b = binary.AppendUvarint(e.b, n) }
func (e *encoder) text(s string) { e.uint(uint64(len(s))); e.b = append(e.b, s...) }

// row writes a queue: how much of its name the name before it has, the rest, and its values.
func (e *encoder) row(before string, r *keptRow) {
	shared := 0
	for shared < min(len(before), len(r.name)) && before[shared] == r.name[shared] {
		shared++
	}
	e.uint(uint64(shared))
	e.text(r.name[shared:])
	for n, v := range r.sample {
		c := &Columns[n]
		switch {
		case c.counts:
			e.uint(uint64(v))
		case v != v: // NaN
			e.uint(0)
		default:
			e.uint(1 + uint64(min(max(0, math.Round(v*c.scale)), 1<<52)))
		}
	}
}

// errSample is the error of a sample that is damaged, or of another version.
var errSample = errors.New("invalid sample")

func decodeSample(data []byte) (k keptSample, err error) {
	if len(data) == 0 || data[0] != sampleVersion {
		return k, fmt.Errorf("%w: not of version %d", errSample, sampleVersion)
	}
	unpacked := flate.NewReader(bytes.NewReader(data[1:]))
	text, err := io.ReadAll(io.LimitReader(unpacked, maxUnpacked))
	if err != nil {
		return k, fmt.Errorf("%w: %w", errSample, err)
	}
	d := decoder{b: text}
	k.at, k.versions = time.UnixMicro(d.int()).UTC(), map[string]bool{}
	for range d.length() {
		k.versions[d.text()] = true
	}
	for range d.length() {
		m := Mark{At: k.at.Add(-time.Duration(d.int()) * time.Microsecond), Queue: d.text()}
		m.Kind, m.Text = Kind(d.text()), d.text()
		k.marks = append(k.marks, m)
	}
	before := ""
	for range d.length() {
		var r keptRow
		d.row(before, &r)
		k.rows, before = append(k.rows, r), r.name
	}
	if d.bad || len(d.b) > 0 {
		return keptSample{}, fmt.Errorf("%w: damaged", errSample)
	}
	return k, nil
}

// decoder reads what encoder wrote. After bad, its results mean nothing.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) int() int64 {
	n, size := binary.Varint(d.b)
	d.skip(size)
	return n
}

func (d *decoder) uint() uint64 {
	n, size := binary.Uvarint(d.b)
	d.skip(size)
	return n
}

func (d *decoder) skip(size int) {
	if size <= 0 || size > len(d.b) {
		d.bad, d.b = true, nil
		return
	}
	d.b = d.b[size:]
}

// length reads a number of items, each of at least a byte.
func (d *decoder) length() uint64 {
	n := d.uint()
	if n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return 0
	}
	return n
}

func (d *decoder) text() string {
	n := d.length()
	if n == 0 {
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) row(before string, r *keptRow) {
	shared := d.uint()
	if shared > uint64(len(before)) {
		d.bad, d.b = true, nil
		return
	}
	r.name = before[:shared] + d.text()
	d.bad = d.bad || names.Validate(r.name) != nil
	for n := range r.sample {
		v := d.uint()
		switch c := &Columns[n]; {
		case c.counts:
			r.sample[n] = float64(v)
		case v == 0:
			r.sample[n] = unknown
		default:
			r.sample[n] = float64(v-1) / c.scale
		}
	}
}
