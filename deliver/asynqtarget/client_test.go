package asynqtarget

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/deliver/setting"
)

// Every option of asynq's becomes what it was.
func TestOptionsSurvive(t *testing.T) {
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	task := asynq.NewTaskWithHeaders("email:send", []byte("x"), map[string]string{"Trace": "1"})
	job, unique, err := jobOf(task, []asynq.Option{
		asynq.Queue("mail"), asynq.TaskID("t1"), asynq.MaxRetry(0), asynq.Timeout(time.Minute), asynq.Deadline(at),
		asynq.Retention(2 * time.Hour),
		asynq.Group("g"), asynq.ProcessAt(at), asynq.Unique(time.Hour),
	})
	if err != nil || !unique || job.Queue != "mail" || job.ID != "t1" || !job.NotBefore.Equal(at) ||
		string(job.Payload) != "x" {
		t.Errorf("%+v, %v, %v", job, unique, err)
	}
	if err := job.Validate(); err != nil {
		t.Error(err)
	}
	p, err := (&asynqtask.Target{Tasks: setting.Patterns{"email:*"}}).Plan(&job)
	if err != nil {
		t.Fatal(err)
	}
	if p.Task != "email:send" || *p.MaxRetry != 0 || p.Timeout != time.Minute || !p.Deadline.Equal(at) ||
		p.Retention != 2*time.Hour || p.Group != "g" || p.Headers["Trace"] != "1" {
		t.Errorf("%+v", p)
	}
	soon, _, err := jobOf(task, []asynq.Option{asynq.ProcessIn(time.Hour)})
	if err != nil || soon.ID == "" || soon.Queue != asynqtask.DefaultQueue || time.Until(soon.NotBefore) < 59*time.Minute {
		t.Errorf("%+v, %v", soon, err)
	}
}
