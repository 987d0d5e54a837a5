package boltq

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/enginetest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
)

// tornCopies is the number of copies that are damaged in each way.
const tornCopies = 30

// tears are the ways in which a copy of a store is damaged.
var tears = []struct {
	name string
	do   func(file []byte, page int, r *rand.Rand) []byte
}{
	{"cut", func(file []byte, _ int, r *rand.Rand) []byte { return file[:1+r.IntN(len(file)-1)] }},
	{"cut at a page", func(file []byte, page int, r *rand.Rand) []byte {
		return file[:page*(1+r.IntN(len(file)/page-1))]
	}},
	{"zeroed", func(file []byte, page int, r *rand.Rand) []byte {
		at := r.IntN(len(file) / page)
		clear(file[at*page : (at+1)*page])
		return file
	}},
	{"half zeroed", func(file []byte, page int, r *rand.Rand) []byte {
		at := r.IntN(len(file) / page)
		clear(file[at*page+page/2 : (at+1)*page])
		return file
	}},
	{"flipped", func(file []byte, _ int, r *rand.Rand) []byte {
		file[r.IntN(len(file))] ^= 1 << r.IntN(8)
		return file
	}},
	{"flipped at a page's begin", func(file []byte, page int, r *rand.Rand) []byte {
		file[r.IntN(len(file)/page)*page+r.IntN(128)] ^= 1 << r.IntN(8)
		return file
	}},
	{"swapped", func(file []byte, page int, r *rand.Rand) []byte {
		a, b := r.IntN(len(file)/page)*page, r.IntN(len(file)/page)*page
		was := bytes.Clone(file[a : a+page])
		copy(file[a:a+page], file[b:b+page])
		copy(file[b:b+page], was)
		return file
	}},
	{"noise", func(file []byte, page int, r *rand.Rand) []byte {
		at := r.IntN(len(file) / page)
		for i := at * page; i < (at+1)*page; i++ {
			file[i] = byte(r.Uint32())
		}
		return file
	}},
}

// A damaged copy of a store opens and works, or is refused as damaged. It never ends the process: bbolt panics, also in
// its own goroutines, so a separate process opens the copies.
func TestTornCopies(t *testing.T) {
	file, page := variedStore(t)
	dir := t.TempDir()
	total := 0
	for i, tear := range tears {
		for n := range tornCopies {
			copied := tear.do(bytes.Clone(file), page, rand.New(rand.NewPCG(uint64(i), uint64(n))))
			name := fmt.Sprintf("%s-%04d", strings.ReplaceAll(tear.name, " ", "_"), n)
			if err := os.WriteFile(filepath.Join(dir, name), copied, 0o600); err != nil {
				t.Fatal(err)
			}
			total++
		}
	}
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), useTornIn+"="+dir)
	out, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%.5000s", err, out[bytes.LastIndex(out, []byte("\nuse "))+1:])
	}
	worked, refused := 0, 0
	for line := range strings.Lines(string(out)) {
		name, said, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch {
		case strings.HasPrefix(line, "use "):
		case said == "works":
			worked++
		case strings.HasPrefix(said, "open "+filepath.Join(dir, name)+": damaged; restore a backup"):
			refused++
		default:
			t.Errorf("%s", line)
		}
	}
	if worked+refused != total || worked < total/10 || refused < total/10 {
		t.Errorf("of %d copies %d worked and %d were refused", total, worked, refused)
	}
}

// variedStore returns a file with records in most tables, and its page size.
func variedStore(t *testing.T) (file []byte, page int) {
	b := start(t, Options{})
	b.MustPut("q", "unlimited")
	b.MustPut("slow", "1/s")
	b.MustPutRule(enginetest.PerHour("r", 1000))
	for i := range 300 {
		j := enginetest.Job("q", i)
		j.Lane, j.Payload = fmt.Sprint("lane", i%7), make([]byte, 40+i%11*40)
		if i%50 == 0 {
			j.Payload = make([]byte, 20_000)
		}
		b.MustAppend(j)
	}
	b.AppendTo("slow", 0, 100)
	for i := range 20 {
		list := b.MustReserve(5)
		b.MustSettle([]queue.Verdict{queue.Deliver, queue.Fail, queue.Bury}[i%3], list)
		b.Advance(time.Second)
	}
	b.MustReserve(5)
	d := document.Document{Kind: "app", Name: "a", Text: []byte(`{}`)}
	if _, err := b.PutDocument(t.Context(), d, queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(b.path)
	if err != nil {
		t.Fatal(err)
	}
	page = os.Getpagesize()
	end := int(binary.NativeEndian.Uint64(file[16+40:])) * page
	return file[:min(end+4*page, len(file))], page // bbolt lets it grow far ahead
}

// useTornIn names the directory of copies for the separate process.
const useTornIn = "PENSTOCK_TEST_USE_TORN_IN"

// useTorn uses every copy in a directory, and prints the results.
func useTorn(dir string) {
	list, _ := os.ReadDir(dir)
	for _, f := range list {
		fmt.Printf("use %s\n", f.Name())
		if err := useCopy(filepath.Join(dir, f.Name())); err != nil {
			fmt.Printf("%s: %s\n", f.Name(), strings.ReplaceAll(err.Error(), "\n", "; "))
			continue
		}
		fmt.Printf("%s: works\n", f.Name())
	}
}

// useCopy opens a copy and uses it as a process does.
func useCopy(path string) error {
	ctx, now := context.Background(), func() leaky.Instant { return noon.Add(time.Hour) }
	for range 2 { // it can be opened again
		e, err := Open(ctx, path, Options{Now: now})
		if err != nil {
			return err
		}
		if err := useEngine(ctx, e); err != nil {
			return errors.Join(err, e.Close())
		}
		if err := e.Close(); err != nil {
			return err
		}
	}
	return nil
}

func useEngine(ctx context.Context, e *Engine) error {
	if _, err := e.List(ctx, "", 100); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	for number := range uint64(20) {
		r, err := e.Reserve(ctx, queue.ReserveRequest{Client: queue.Client{ID: "d"}, Number: number + 1, Max: 10})
		if err != nil {
			return fmt.Errorf("reserve: %w", err)
		}
		if _, err := e.Settle(ctx, enginetest.Settlements(queue.Deliver, r.Jobs)); err != nil {
			return fmt.Errorf("settle: %w", err)
		}
	}
	if _, err := e.Put(ctx, queue.Spec{Name: "new", Rate: leaky.Unlimited}, queue.AnyRevision); err != nil {
		return fmt.Errorf("put: %w", err)
	}
	a, err := e.Append(ctx, enginetest.Jobs("new", 0, 50))
	if err != nil || a[0].Outcome != queue.Accepted && a[0].Outcome != queue.Duplicate {
		return fmt.Errorf("append: %v: %w", a[0].Outcome, err)
	}
	return nil
}
