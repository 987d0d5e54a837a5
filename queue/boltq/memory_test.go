package boltq

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/penstock/penstock/queue/machine"
)

// A table in memory behaves like one in a file, also when an update fails half-way.
func TestMemoryIsLikeAFile(t *testing.T) {
	db, err := bbolt.Open(filepath.Join(t.TempDir(), "db"), 0o600, &bbolt.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rapid.Check(t, func(rt *rapid.T) {
		both := [2]storage{boltFile{db}, inMemory{machine.NewMemory()}}
		name := jobsTable
		err := db.Update(func(tx *bbolt.Tx) error {
			_ = tx.DeleteBucket(name)
			_, err := tx.CreateBucket(name)
			return err
		})
		if err != nil {
			rt.Fatal(err)
		}
		for range rapid.IntRange(1, 30).Draw(rt, "updates") {
			broken := rapid.IntRange(0, 3).Draw(rt, "broken") == 0
			var do []func(t machine.Table) error
			for range rapid.IntRange(0, 8).Draw(rt, "operations") {
				k := fmt.Appendf(nil, "%d", rapid.IntRange(0, 12).Draw(rt, "key"))
				v := []byte(rapid.SampledFrom([]string{"", "a", "longer"}).Draw(rt, "value"))
				switch rapid.IntRange(0, 4).Draw(rt, "operation") {
				case 0:
					do = append(do, func(t machine.Table) error { return t.Delete(k) })
				case 1:
					do = append(do, func(t machine.Table) error { return t.SetSequence(t.Sequence() + 1) })
				default:
					do = append(do, func(t machine.Table) error { return t.Put(k, v) })
				}
			}
			for _, s := range both {
				err := s.update(func(tx machine.Transaction) error {
					for _, f := range do {
						if err := f(tx.Table(name)); err != nil {
							return err
						}
					}
					if broken {
						return errHalfWay
					}
					return nil
				})
				if broken != errors.Is(err, errHalfWay) || !broken && err != nil {
					rt.Fatal(err)
				}
			}
			from := fmt.Appendf(nil, "%d", rapid.IntRange(0, 20).Draw(rt, "from"))
			if a, b := shown(both[0], name, from), shown(both[1], name, from); a != b {
				rt.Fatalf("the file has\n%s\nmemory has\n%s", a, b)
			}
		}
	})
}

var errHalfWay = errors.New("half-way")

// shown returns the content of a table, read in each way.
func shown(s storage, name, from []byte) (text string) {
	err := s.view(func(tx machine.Transaction) error {
		of := tx.Table(name)
		text = fmt.Sprintf("sequence %d, %q at %q\n", of.Sequence(), of.Get(from), from)
		c := of.Cursor()
		for _, way := range []struct {
			name        string
			start, step func() (k, v []byte)
		}{
			{"forth", c.First, c.Next},
			{"back", c.Last, c.Prev},
			{"on", func() (k, v []byte) { return c.Seek(from) }, c.Next},
		} {
			text += way.name
			for k, v := way.start(); k != nil; k, v = way.step() {
				text += fmt.Sprintf(" %s=%q", k, v)
			}
			text += "\n"
		}
		return nil
	})
	return text + fmt.Sprint(err)
}

// A store in memory has nothing to read.
func TestMemoryIsNeverReadOnly(t *testing.T) {
	_, err := OpenMemory(t.Context(), Options{ReadOnly: true})
	if err == nil || !strings.Contains(err.Error(), "ReadOnly") {
		t.Error(err)
	}
}
