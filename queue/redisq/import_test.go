package redisq_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/move"
	"github.com/penstock/penstock/internal/test/faultproxy"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
)

func (v *env) export(name string) (q move.Queue, jobs []move.Job) {
	v.t.Helper()
	q, err := v.e.ExportQueue(v.ctx, name)
	if err != nil {
		v.t.Fatal(err)
	}
	for _, s := range []queue.State{queue.Dead, queue.Scheduled, queue.Waiting, queue.Delivered} {
		page, err := v.e.ExportJobs(v.ctx, move.ExportRequest{Queue: name, State: s})
		if err != nil {
			v.t.Fatal(err)
		}
		jobs = append(jobs, page.Jobs...)
	}
	return q, jobs
}

// Whatever happens to a script of an import between the tool and Redis, it is carried out once.
func TestMoverLostReply(t *testing.T) {
	v, proxy := proxied(t, false)
	v.put("source", leaky.Unlimited, nil)
	v.bury("source", 1, 2)
	v.append(job("source", 3), job("source", 4))
	q, jobs := v.export("source")
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			v.t = t
			to := q
			to.Spec.Name = fmt.Sprintf("target-%d", i)
			f.inject(proxy, faultproxy.Script("the-mark"))
			if closed, err := v.e.OpenImport(v.ctx, to, "the-mark"); err != nil || closed {
				t.Fatalf("open: %v, %v", closed, err)
			}
			proxy.Clear()
			f.inject(proxy, faultproxy.Script("job-0003"))
			if _, err := v.e.ImportJobs(v.ctx, to.Spec.Name, "the-mark", jobs); err != nil {
				t.Fatal(err)
			}
			proxy.Clear()
			f.inject(proxy, faultproxy.Script("the-mark"))
			if err := v.e.CloseImport(v.ctx, to, "the-mark"); err != nil {
				t.Fatal(err)
			}
			proxy.Clear()
			if i := v.info(to.Spec.Name); i.Waiting != 2 || i.Dead != 2 || i.Appended != 4 || i.Died != 2 ||
				i.Pause.On() {
				t.Errorf("%+v", i)
			}
		})
	}
}

// Queues without jobs are imported once, with one entry in the audit log, whatever happens to the script.
func TestImportQueuesLostReply(t *testing.T) {
	v, proxy := proxied(t, false)
	for i, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			v.t = t
			var queues []move.Queue
			for k := range 3 {
				spec := queue.Spec{Name: fmt.Sprintf("q-%d-%d", i, k), Rate: leaky.PerSecond(1), Capacity: 1}
				queues = append(queues, move.Queue{Spec: spec, MaxCost: 1})
			}
			entries := func() (n int) {
				for p := range v.e.Partitions() {
					page, err := v.e.Audit(v.ctx, audit.Request{Partition: p, Limit: audit.MaxPage})
					if err != nil {
						t.Fatal(err)
					}
					for r := range page.Records {
						e, err := page.Records[r].Entry()
						if err != nil {
							t.Fatal(err)
						}
						list, err := e.List(page.Records[r].After)
						if err != nil {
							t.Fatal(err)
						}
						n += len(list)
					}
				}
				return n
			}
			before := entries()
			f.inject(proxy, faultproxy.Script("the-mark"))
			done, err := v.e.ImportQueues(v.ctx, queues, "the-mark")
			proxy.Clear()
			if err != nil || fmt.Sprint(done) != "[true true true]" {
				t.Fatal(done, err)
			}
			if n := entries() - before; n != 3 {
				t.Errorf("the audit log has %d of 3 queues", n)
			}
			for k := range queues {
				if i := v.info(queues[k].Spec.Name); i.Pause.On() || i.Size() != 0 {
					t.Errorf("%+v", i)
				}
			}
		})
	}
}

// Keys that are not penstock's are told of, and stop nothing else.
func TestMovingAmongPlantedKeys(t *testing.T) {
	client := redistest.New(t, redistest.Options{}).Client()
	v := open(t, client, redisq.Options{Init: true, Partitions: 1})
	v.put("source", leaky.Unlimited, nil)
	v.append(job("source", 1), job("source", 2), job("source", 3), job("source", 4))
	q, good := v.export("source")
	if err := client.Del(v.ctx, "ps{0}j1:job-0002").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(v.ctx, "ps{0}j1:job-0002", "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(v.ctx, "ps{0}j1:job-0003", "short", 0).Err(); err != nil {
		t.Fatal(err)
	}
	_, jobs := v.export("source")
	text := ""
	for _, j := range jobs {
		text += fmt.Sprintf("%s %d ", j.ID, j.State)
	}
	if want := "job-0001 1 job-0002 0 job-0003 0 job-0004 1 "; text != want {
		t.Errorf("exported %s, want %s", text, want)
	}

	q.Spec.Name = "target"
	if _, err := v.e.OpenImport(v.ctx, q, "m"); err != nil {
		t.Fatal(err)
	}
	if err := client.HSet(v.ctx, "ps{0}j2:job-0002", "a", "b").Err(); err != nil {
		t.Fatal(err)
	}
	out, err := v.e.ImportJobs(v.ctx, "target", "m", good)
	if err != nil || fmt.Sprint(out) != "[placed failed placed placed]" {
		t.Errorf("imported %v, %v", out, err)
	}
	if err := client.Del(v.ctx, "ps{0}w2").Err(); err != nil {
		t.Fatal(err)
	}
	if err := client.Set(v.ctx, "ps{0}w2", "x", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"import": func() error { _, err := v.e.ImportJobs(v.ctx, "target", "m", good); return err },
		"close":  func() error { return v.e.CloseImport(v.ctx, q, "m") },
	} {
		if err := do(); !errors.Is(err, queue.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// An import into a Redis that has no memory left is refused whole, and goes on when it has.
func TestImportOutOfMemory(t *testing.T) {
	client := redistest.New(t, redistest.Options{}).Client()
	v := open(t, client, redisq.Options{Init: true, Partitions: 1})
	v.put("source", leaky.Unlimited, nil)
	v.append(job("source", 1), job("source", 2))
	q, jobs := v.export("source")
	q.Spec.Name = "target"
	if _, err := v.e.OpenImport(v.ctx, q, "m"); err != nil {
		t.Fatal(err)
	}
	if err := client.ConfigSet(v.ctx, "maxmemory", "1").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := v.e.ImportJobs(v.ctx, "target", "m", jobs); !errors.Is(err, queue.ErrStoreFull) {
		t.Errorf("out of memory: %v", err)
	}
	empty := []move.Queue{{Spec: q.Spec, MaxCost: 1}}
	empty[0].Spec.Name = "empty"
	if _, err := v.e.ImportQueues(v.ctx, empty, "m"); !errors.Is(err, queue.ErrStoreFull) {
		t.Errorf("a queue, out of memory: %v", err)
	}
	if err := client.ConfigSet(v.ctx, "maxmemory", "0").Err(); err != nil {
		t.Fatal(err)
	}
	if done, err := v.e.ImportQueues(v.ctx, empty, "m"); err != nil || !done[0] {
		t.Errorf("a queue, with memory: %v, %v", done, err)
	}
	if i := v.info("target"); i.Size() != 0 {
		t.Errorf("%d jobs came in", i.Size())
	}
	ctx, cancel := context.WithTimeout(v.ctx, 10*time.Second)
	defer cancel()
	if out, err := v.e.ImportJobs(ctx, "target", "m", jobs); err != nil || fmt.Sprint(out) != "[placed placed]" {
		t.Errorf("%v, %v", out, err)
	}
	if err := v.e.CloseImport(ctx, q, "m"); err != nil {
		t.Fatal(err)
	}
	v.drain("target", 2)
}
