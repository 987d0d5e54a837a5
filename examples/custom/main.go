// Command custom defines its own kind of target: a file to which each job is written as a line.
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

// file is the setting of a queue: {"file": {"name": "letters.txt"}}.
type file struct {
	Name string `json:"name"`
}

// Check refuses an invalid setting when it is read.
func (f *file) Check(at string) error {
	if !filepath.IsLocal(f.Name) || filepath.Dir(f.Name) != "." {
		return setting.Error(at+".name", f.Name, "must be the name of a file, without a directory")
	}
	return nil
}

// Accept refuses jobs that can never be delivered when they are appended.
func (f *file) Accept(job *queue.Job) error {
	if len(job.Payload) > 4096 {
		return setting.Error("payload", "", "has more than 4096 bytes, the limit for a line")
	}
	return nil
}

// OnUnknown returns the default for a job that may have been written: a repeated line is better than a lost one.
func (f *file) OnUnknown() string { return queue.UnknownRetry }

// write makes one attempt. It prepares everything before the gate; after the gate the job leaves.
func write(ctx context.Context, job *drain.Job, gate drain.Gate, s setting.Setting) error {
	to, err := os.OpenFile(s.(*file).Name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return drain.Down(err) // the target's fault: uses no attempt of the job
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
	if _, err := kinds.Parse(spec.Deliver); err != nil { // engines accept any setting, so check it first
		return err
	}
	kinds.Complete(&spec)
	if _, err := engine.Put(ctx, spec, queue.AnyRevision); err != nil {
		return err
	}
	intake := kinds.NewIntake(engine, engine) // lets the target check each job
	for i := range 20 {
		answers, err := intake.Append(ctx, []queue.Job{
			{Queue: "letters", ID: fmt.Sprint("letter-", i), Payload: fmt.Appendf(nil, "hello %d", i)},
		})
		if err != nil {
			return err
		}
		if a := answers[0]; a.Outcome != queue.Accepted && a.Outcome != queue.Duplicate {
			log.Printf("letter-%d: %v %v; retry in %v", i, a.Outcome, a.Err, a.RetryAfter)
		}
	}
	router := deliver.New(deliver.Options{Kinds: kinds})
	defer router.Close()
	return drain.Run(ctx, engine, router, drain.Options{})
}
