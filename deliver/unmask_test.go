package deliver

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue"
)

// A stored secret does not follow a target to another host.
func TestSecretsStayWithTheirHost(t *testing.T) {
	stored := json.RawMessage(`{"http": {"url": "https://good.example.com/a", "headers": {"Authorization": "Bearer hunter2"}}}`)
	kept, err := Unmask(json.RawMessage(`{"http": {"url": "https://good.example.com/b", "headers": {"Authorization": "***"}}}`), stored)
	if err != nil || !strings.Contains(string(kept), "hunter2") {
		t.Errorf("%s, %v", kept, err)
	}
	for _, raw := range []string{
		`{"http": {"url": "https://evil.example.com/a", "headers": {"Authorization": "***"}}}`,
		`{"http": {"url": "https://good.example.com.evil.example/a", "headers": {"Authorization": "***"}}}`,
	} {
		got, err := Unmask(json.RawMessage(raw), stored)
		var refused *queue.FieldError
		if !errors.As(err, &refused) || refused.Field != "deliver.http.url" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %s, %v", raw, got, err)
		}
	}
	if _, err := Unmask(json.RawMessage(`{"http": {"url": "https://new.example.com/", "headers": {"Authorization": "Bearer other"}}}`), stored); err != nil {
		t.Errorf("with the secret itself: %v", err)
	}
}
