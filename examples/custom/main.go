// Command custom has a kind of target of its own: files that jobs are written to, a line each.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/drain"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
)

// file is what a queue's setting says: {"file": {"name": "letters.txt"}}.
type file struct {
	Name string `json:"name"`
}

// Check refuses what cannot be used, when it is read.
func (f *file) Check(at string) error {
	if !filepath.IsLocal(f.Name) || filepath.Dir(f.Name) != "." {
		return setting.Error(at+".name", f.Name, "must be the name of a file, without a directory")
	}
	return nil
}

// Accept refuses jobs that can never be delivered, when they come in.
func (f *file) Accept(job *queue.Job) error {
	if len(job.Payload) > 4096 {
		return setting.Error("payload", "", "has more than 4096 bytes, which is more than a line should")
	}
	return nil
}

// OnUnknown is what becomes of a job that may have been written: a line twice is better than none.
func (f *file) OnUnknown() string { return queue.UnknownRetry }

// write makes one attempt. What can be prepared is, before the gate; behind it the job leaves.
func write(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error {
	to, err := os.OpenFile(s.(*file).Name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return drain.Down(err) // the target's fault: it costs the job no attempt
	}
	defer to.Close()
	if err := gate.Wait(ctx); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(to, "%s %s\n", job.ID, job.Payload); err != nil {
		return drain.Unknown(err)
	}
	fmt.Println("wrote", job.ID)
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	kinds, err := deliver.NewKinds(deliver.Kind{
		Name: "file", Setting: func() setting.Setting { return &file{Name: "letters.txt"} }, Deliver: write,
	})
	if err != nil {
		return err
	}
	engine, err := boltq.Open(ctx, "jobs.db", boltq.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	spec := queue.Spec{Name: "letters", Rate: leaky.PerSecond(10), Deliver: []byte(`{"file": {"name": "sent.txt"}}`)}
	if _, err := kinds.Parse(spec.Deliver); err != nil { // engines take any setting: who puts a queue checks it
		return err
	}
	kinds.Complete(&spec)
	if _, err := engine.Put(ctx, spec, queue.AnyRevision); err != nil {
		return err
	}
	door := kinds.NewIntake(engine, engine) // asks the target about each job
	for i := range 20 {
		answers, err := door.Append(ctx, []queue.Job{
			{Queue: "letters", ID: fmt.Sprint("letter-", i), Payload: fmt.Appendf(nil, "hello %d", i)},
		})
		if err != nil {
			return err
		}
		if a := answers[0]; a.Outcome != queue.Accepted && a.Outcome != queue.Duplicate {
			log.Printf("letter-%d: %v %v; come back in %v", i, a.Outcome, a.Err, a.RetryAfter)
		}
	}
	router := deliver.New(deliver.Options{Kinds: kinds})
	defer router.Close()
	return drain.Run(ctx, engine, router, drain.Options{})
}
