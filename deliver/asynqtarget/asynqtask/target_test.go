package asynqtask

import (
	"errors"
	"testing"

	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

func parse(text string) (*Target, error) {
	t := Default()
	if err := setting.Decode([]byte(text), "deliver.asynq", t); err != nil {
		return nil, err
	}
	return t, t.Check("deliver.asynq")
}

func TestSettingsThatAreRefused(t *testing.T) {
	for text, field := range map[string]string{
		`{"task": "a b"}`:                   "task",
		`{}`:                                "task",
		`{"tasks": []}`:                     "task",
		`{"tasks": ["a b"]}`:                "tasks[0]",
		`{"task": "a", "tasks": ["*"]}`:     "tasks",
		`{"task": "a", "queue": ""}`:        "queue",
		`{"task": "a", "queue": "a\n"}`:     "queue",
		`{"task": "a", "max_retry": -1}`:    "max_retry",
		`{"task": "a", "max_retry": 1.5}`:   "max_retry",
		`{"task": "a", "timeout": "10ms"}`:  "timeout",
		`{"task": "a", "retention": "-1h"}`: "retention",
		`{"task": "a", "retention": 5}`:     "retention",
		`{"redis": "redis://x/"}`:           "redis",
	} {
		_, err := parse(text)
		var refused *invalid.Error
		if !errors.As(err, &refused) || refused.Field != "deliver.asynq."+field {
			t.Errorf("%s: %v, want an error of %s", text, err, field)
		}
	}
}

// What a job says of its task is checked when it comes in.
func TestJobsThatAreRefused(t *testing.T) {
	fixed, err := parse(`{"task": "email:send"}`)
	if err != nil {
		t.Fatal(err)
	}
	open, err := parse(`{"tasks": ["x", "email:*"]}`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		target  *Target
		headers map[string]string
		field   string // empty: it is taken
	}{
		{fixed, nil, ""},
		{fixed, map[string]string{HeaderTask: "email:send"}, ""},
		{fixed, map[string]string{HeaderTask: "admin:wipe"}, HeaderTask},
		{open, nil, HeaderTask},
		{open, map[string]string{"asynq-task": "x"}, ""},
		{open, map[string]string{HeaderTask: "a b"}, HeaderTask},
		{open, map[string]string{HeaderTask: "email:send"}, ""},
		{open, map[string]string{HeaderTask: "admin:wipe"}, HeaderTask},
		{fixed, map[string]string{HeaderMaxRetry: "-1"}, HeaderMaxRetry},
		{fixed, map[string]string{HeaderMaxRetry: "lots"}, HeaderMaxRetry},
		{fixed, map[string]string{HeaderTimeout: "1ms"}, HeaderTimeout},
		{fixed, map[string]string{HeaderRetention: "soon"}, HeaderRetention},
		{fixed, map[string]string{HeaderDeadline: "tomorrow"}, HeaderDeadline},
		{fixed, map[string]string{HeaderGroup: ""}, HeaderGroup},
		{fixed, map[string]string{"Asynq-Queue": "critical"}, "Asynq-Queue"},
	} {
		err := c.target.Accept(&queue.Job{Queue: "q", ID: "1", Headers: c.headers})
		var refused *invalid.Error
		if errors.As(err, &refused) != (c.field != "") || c.field != "" && refused.Field != "headers."+c.field {
			t.Errorf("%v: %v, want %q", c.headers, err, c.field)
		}
	}
}
