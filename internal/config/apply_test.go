package config_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/rules"
)

func TestApply(t *testing.T) {
	ctx := context.Background()
	engine, err := boltq.Open(ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	file, err := config.Parse("q.yaml", []byte(whole), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	a, err := config.Apply(ctx, engine, file, log)
	if err != nil || !reflect.DeepEqual(a.Queues.Created, []string{"email", "ses.otp"}) {
		t.Fatalf("first: %+v, %v", a, err)
	}
	a, err = config.Apply(ctx, engine, file, log)
	if err != nil || a.Queues.Same != 2 || len(a.Queues.Created)+len(a.Queues.Drifted) > 0 {
		t.Fatalf("again: %+v, %v", a, err)
	}
	before, err := engine.Get(ctx, "email")
	if err != nil {
		t.Fatal(err)
	}
	file.Queues[0].Capacity, file.Queues[0].Deliver = 9, nil
	out.Reset()
	a, err = config.Apply(ctx, engine, file, log)
	if err != nil || a.Queues.Same != 1 || !reflect.DeepEqual(
		a.Queues.Drifted, map[string][]string{"email": {"capacity", "deliver"}},
	) {
		t.Fatalf("drift: %+v, %v", a, err)
	}
	if !strings.Contains(out.String(), "differs") || !strings.Contains(out.String(), "email") {
		t.Errorf("logged %s", out.String())
	}
	if after, err := engine.Get(ctx, "email"); err != nil || after.Revision != before.Revision ||
		after.Spec.Capacity != 500 {
		t.Errorf("a queue was changed: %+v, %v", after, err)
	}
	file.Queues[1].Rate, file.Queues[1].Name = queue.Spec{}.Rate, "Not A Name"
	if _, err := config.Apply(ctx, engine, file, log); err == nil || !strings.Contains(err.Error(), "Not A Name") {
		t.Errorf("a bad spec: %v", err)
	}
}

// Rules are created before the queues that need them, and are compared too.
func TestApplyRules(t *testing.T) {
	ctx := context.Background()
	engine, err := boltq.Open(ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	file, err := config.Parse("q.yaml", []byte(ruled), nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	if _, err := config.Apply(ctx, engine, config.File{Queues: file.Queues}, log); err == nil ||
		!strings.Contains(err.Error(), "creating queue mail: ") {
		t.Errorf("without its rules: %v", err)
	}
	a, err := config.Apply(ctx, engine, file, log)
	if err != nil || !reflect.DeepEqual(a.Rules.Created, []string{"mail.otp", "mail"}) ||
		!reflect.DeepEqual(a.Queues.Created, []string{"mail"}) {
		t.Fatalf("first: %+v, %v", a, err)
	}
	before, err := engine.Rule(ctx, "mail.otp")
	if err != nil || !reflect.DeepEqual(before.Queues, []string{"mail"}) {
		t.Fatalf("%+v, %v", before, err)
	}
	file.Rules[0].Limit, file.Rules[0].Overrides = 3, nil
	out.Reset()
	a, err = config.Apply(ctx, engine, file, log)
	if err != nil || a.Rules.Same != 1 || a.Queues.Same != 1 ||
		!reflect.DeepEqual(a.Rules.Drifted, map[string][]string{"mail.otp": {"limit", "overrides"}}) {
		t.Fatalf("drift: %+v, %v", a, err)
	}
	if !strings.Contains(out.String(), "differs from the file") ||
		!strings.Contains(out.String(), "penstock rule apply") || !strings.Contains(out.String(), "rule=mail.otp") {
		t.Errorf("logged %s", out.String())
	}
	if after, err := engine.Rule(ctx, "mail.otp"); err != nil || !reflect.DeepEqual(after, before) {
		t.Errorf("a rule was changed: %+v, %v", after, err)
	}
}

// Drift is found in the secrets themselves, not in their masked form, and reported by field name only.
func TestApplyComparesSecrets(t *testing.T) {
	ctx := context.Background()
	engine, err := boltq.Open(ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	file := func(secret string) config.File {
		t.Helper()
		file, err := config.Parse(
			"q.yaml",
			[]byte(
				"queues:\n  - name: email\n    rate: 1/s\n    deliver:\n      http: {url: \"http://a/?token="+secret+
					"\", headers: {X-Key: "+secret+"}}\n",
			),
			valid,
		)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	for i, c := range []struct {
		secret  string
		drifted bool
	}{{"hunter2", false}, {"hunter2", false}, {"hunter3", true}} {
		a, err := config.Apply(ctx, engine, file(c.secret), log)
		if err != nil || (len(a.Queues.Drifted) > 0) != c.drifted {
			t.Errorf("%d: %+v, %v", i, a, err)
		}
	}
	if !strings.Contains(out.String(), "differs") || strings.Contains(out.String(), "hunter") {
		t.Errorf("logged %s", out.String())
	}
	_, err = config.Parse(
		"q.yaml",
		[]byte(
			"queues:\n  - name: email\n    rate: 1/s\n    deliver:\n      http: {url: \"http://a/\", headers: {X-Key: "+
				"\"***\"}}\n",
		),
		valid,
	)
	if err == nil || !strings.Contains(err.Error(), "q.yaml:5:") ||
		!strings.Contains(err.Error(), "headers.X-Key: is ***") {
		t.Errorf("what is shown of a secret, in a file: %v", err)
	}
}

func valid(_ string, raw json.RawMessage) error {
	_, err := deliver.Parse(raw)
	return err
}

// A missing rule of another group is reported when the queue is created, not by its jobs.
func TestApplyLooksForRulesOfOtherGroups(t *testing.T) {
	ctx := t.Context()
	engine, err := boltq.Open(ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	file, err := config.Parse(
		"q.yaml", []byte("queues:\n  - {name: email, rate: 1/s, pull: true, rules: [tenants]}\n"), nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	var field *invalid.Error
	if _, err := config.Apply(ctx, engine, file, slog.New(slog.DiscardHandler)); !errors.As(err, &field) ||
		field.Field != "rules.0" {
		t.Errorf("a rule that is not there: %v", err)
	}
}

// A missing rule that queues of other groups need is not created as a rule that is not usable for jobs.
func TestApplyRefusesConcurrencyRuleOfQueues(t *testing.T) {
	ctx := t.Context()
	engine, err := boltq.Open(ctx, filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	apply := func(text string) error {
		t.Helper()
		file, err := config.Parse("q.yaml", []byte(text), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Apply(ctx, engine, file, slog.New(slog.DiscardHandler))
		return err
	}
	if err := apply(
		"rules:\n  - {name: tenants, algorithm: meter, rate: 1/s}\nqueues:\n  - {name: email, rate: 1/s, pull: true, " +
			"rules: [tenants]}\n",
	); err != nil {
		t.Fatal(err)
	}
	places := "rules:\n  - {name: tenants, algorithm: concurrency, limit: 1, ttl: 1s}\n"
	if err := apply(places); err != nil {
		t.Errorf("one that is there was not left as it is: %v", err)
	}
	if err := engine.DeleteRule(ctx, "tenants", queue.AnyRevision); err != nil {
		t.Fatal(err)
	}
	var field *invalid.Error
	if err := apply(places); !errors.As(err, &field) || field.Field != "algorithm" {
		t.Errorf("one that a queue names: %v", err)
	}
	if _, err := engine.Rule(ctx, "tenants"); !errors.Is(err, rules.ErrUnknown) {
		t.Errorf("it was made: %v", err)
	}
}
