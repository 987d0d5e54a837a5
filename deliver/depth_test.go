package deliver_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
)

// A target that a Go program brings, and a payload that came as bytes, were not looked at by who reads specs and jobs.
func TestTooDeep(t *testing.T) {
	lists := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	var field *invalid.Error
	_, err := deliver.Parse(json.RawMessage(`{"http":{"url":"https://a.example/","headers":` + lists + `}}`))
	if !errors.As(err, &field) || field.Field != "deliver.http.headers.0" ||
		!strings.Contains(field.Reason, "deeper than 64 levels") {
		t.Errorf("a target: %v", err)
	}
	deep := json.RawMessage(`{"a":` + lists + `}`)
	if _, err := secrets.Unmask(deep, nil); !errors.As(err, &field) ||
		!strings.Contains(field.Reason, "deeper than 64 levels") {
		t.Errorf("unmasked: %v", err)
	}
	if masked := secrets.Mask(deep); len(masked) > 100 {
		t.Errorf("masked: %.200s", masked)
	}
	mail, err := deliver.Parse(json.RawMessage(`{"smtp":{"host":"mail.example.com","from":"a@example.com"}}`))
	if err != nil {
		t.Fatal(err)
	}
	job := queue.Job{
		Queue: "q", ID: "a", ContentType: queue.DefaultContentType,
		Payload: []byte(`{"to":"b@example.com","attachments":` + lists + `}`),
	}
	if err := mail.Accept(&job); !errors.As(err, &field) || !strings.HasPrefix(field.Field, "payload.attachments") ||
		!strings.Contains(field.Reason, "deeper than 64 levels") {
		t.Errorf("a mail: %v", err)
	}
}
