package config_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue/boltq"
)

// The YAML on the page is valid, and shows the defaults where it says so.
func TestPageShowsFiles(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(blocks) < 2 {
		t.Fatalf("%d blocks of YAML", len(blocks))
	}
	defaults := false
	for _, b := range blocks {
		text := string(b[1])
		if !strings.HasPrefix(text, "queues:") && !strings.HasPrefix(text, "rules:") {
			text = "queues:\n" + text
		}
		file, err := config.Parse("configuration.md", []byte(text), func(_ string, raw json.RawMessage) error {
			_, err := deliver.Parse(raw)
			return err
		})
		if err != nil || len(file.Rules)+len(file.Queues) == 0 {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		if !defaults && bytes.HasPrefix(b[1], []byte("queues:")) { // the first such
			defaults = true
			bare, err := config.Parse("bare", []byte("queues:\n  - name: email\n    rate: 14/s\n"), nil)
			if err != nil {
				t.Fatal(err)
			}
			shown, plain := file.Queues[0], bare.Queues[0]
			plain.Deliver = shown.Deliver
			if !plain.Equal(shown) {
				t.Errorf("the page shows %+v\nthe defaults are %+v", shown, plain)
			}
		}
	}
	if !defaults {
		t.Error("the page shows no defaults")
	}
}

// The example of queues is valid.
func TestExampleFile(t *testing.T) {
	file, err := config.Load("../../examples/queues.yaml", func(_ string, raw json.RawMessage) error {
		_, err := deliver.Parse(raw)
		return err
	})
	if err != nil || len(file.Queues) != 3 || file.Queues[2].Lanes.Overrides["gmail.com"].Capacity != 50_000 {
		t.Errorf("%+v, %v", file, err)
	}
}

// The example of rules is valid, and a store accepts it.
func TestRulesExample(t *testing.T) {
	file, err := config.Load("../../examples/rules.yaml", func(_ string, raw json.RawMessage) error {
		_, err := deliver.Parse(raw)
		return err
	})
	if err != nil || len(file.Rules) != 3 || len(file.Queues) != 1 || file.Rules[1].Key != "{lane}" {
		t.Fatalf("%+v, %v", file, err)
	}
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	a, err := config.Apply(t.Context(), engine, file, slog.New(slog.DiscardHandler))
	if err != nil || len(a.Rules.Created) != 3 || len(a.Queues.Created) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
}

// The examples of other targets, and of their pages, are valid.
func TestTargetExamples(t *testing.T) {
	for file, target := range map[string]string{"mail.yaml": "smtp", "warmup.yaml": "smtp", "sms.yaml": "sms"} {
		page, err := os.ReadFile("../../docs/targets/" + target + ".md")
		if err != nil {
			t.Fatal(err)
		}
		example, err := os.ReadFile("../../examples/" + file)
		if err != nil {
			t.Fatal(err)
		}
		shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
		for _, text := range [][]byte{example, shown[1]} {
			f, err := config.Parse(file, text, func(_ string, raw json.RawMessage) error {
				_, err := deliver.Parse(raw)
				return err
			})
			if err != nil || len(f.Queues) == 0 {
				t.Errorf("%v in\n%s", err, text)
			}
		}
	}
}
