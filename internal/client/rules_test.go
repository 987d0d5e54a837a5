package client_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/boltq"
	"github.com/penstock/penstock/queue/rules"
)

// ingress is the API over a store on a file, and a client of it.
func ingress(t *testing.T) *client.Client {
	t.Helper()
	e, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	s := httptest.NewServer(api.New(e, api.Options{}))
	t.Cleanup(s.Close)
	c, err := client.New(s.URL, s.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantReason(t *testing.T, err error, reason string) {
	t.Helper()
	var p *client.Problem
	if !errors.As(err, &p) || p.Reason != reason {
		t.Errorf("%v, want a problem with reason %s", err, reason)
	}
}

func TestRules(t *testing.T) {
	c, ctx := ingress(t), t.Context()
	spec := json.RawMessage(`{"algorithm":"sliding_log","limit":2,"period":"1h","key":"{lane}"}`)
	made, err := c.PutRule(ctx, "mail.otp", spec, client.Absent)
	if err != nil || made.Name != "mail.otp" || made.Limit != 2 || made.Revision < 1 {
		t.Fatalf("%+v, %v", made, err)
	}
	_, err = c.PutRule(ctx, "mail.otp", spec, client.Absent)
	wantReason(t, err, "revision_mismatch")
	if _, err := c.Put(ctx, "mail", json.RawMessage(`{"rate":"1/s","rules":["mail.otp"]}`), client.Always); err != nil {
		t.Fatal(err)
	}
	if got, err := c.Rule(ctx, "mail.otp"); err != nil || len(got.Queues) != 1 || got.Queues[0] != "mail" ||
		got.Period.String() != "1h0m0s" {
		t.Errorf("%+v, %v", got, err)
	}
	_, err = c.Rule(ctx, "none")
	wantReason(t, err, "unknown_rule")
	wantReason(t, c.DeleteRule(ctx, "mail.otp", made.Revision, false), "rule_in_use")

	if _, err := c.PutRule(
		ctx, "mail.places", json.RawMessage(`{"algorithm":"concurrency","limit":1,"ttl":"1h"}`), client.Always,
	); err != nil {
		t.Fatal(err)
	}
	list, err := c.Rules(ctx)
	if err != nil || len(list) != 2 || list[1].Name != "mail.places" {
		t.Errorf("%+v, %v", list, err)
	}
	if names, err := c.RuleNames(ctx, "mail.p"); err != nil || strings.Join(names, " ") != "mail.places" {
		t.Errorf("%v, %v", names, err)
	}
	if err := c.DeleteRule(ctx, "mail.places", client.Always, false); err != nil {
		t.Error(err)
	}
}

// A refusal is an answer, alone and in a list.
func TestTakes(t *testing.T) {
	c, ctx := ingress(t), t.Context()
	if _, err := c.PutRule(
		ctx, "otp", json.RawMessage(`{"algorithm":"sliding_log","limit":2,"period":"1h","key":"{lane}"}`), client.Always,
	); err != nil {
		t.Fatal(err)
	}
	ask := func(op rules.TakeOp, take wire.Take) wire.Taken {
		t.Helper()
		got, err := c.Take(ctx, "otp", op, take)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(rules.TakeNow, wire.Take{Key: "a", Cost: 2}); !got.Allowed || got.Limit != 2 || got.ResetAfterMS == 0 {
		t.Errorf("%+v", got)
	}
	if got := ask(rules.TakeNow, wire.Take{Key: "a"}); got.Allowed || got.Limit != 2 || got.RetryAfterMS == 0 ||
		got.ResetAfterMS == 0 {
		t.Errorf("%+v", got)
	}
	if got := ask(rules.TakePeek, wire.Take{Key: "a"}); got.Allowed {
		t.Errorf("%+v", got)
	}
	if got := ask(rules.TakeBack, wire.Take{Key: "a"}); !got.Allowed {
		t.Errorf("%+v", got)
	}
	if got := ask(rules.TakeAnew, wire.Take{Key: "a"}); !got.Allowed || got.Remaining != 1 {
		t.Errorf("%+v", got)
	}
	_, err := c.Take(ctx, "otp", rules.TakeNow, wire.Take{Key: "a", Cost: 3})
	wantReason(t, err, "invalid_field")
	_, err = c.Take(ctx, "none", rules.TakeNow, wire.Take{})
	wantReason(t, err, "unknown_rule")

	all, err := c.TakeAll(ctx, "otp", rules.TakeNow, []wire.Take{{Key: "b", Cost: 2}, {Key: "b", Cost: 3}, {Key: "b"}})
	if err != nil || len(all) != 3 || all[0].Status != 200 || !all[0].Allowed || all[1].Status != 400 ||
		all[1].Field != "cost" || all[2].Status != 429 || all[2].Allowed {
		t.Errorf("%+v, %v", all, err)
	}
	if err := c.ResetRule(ctx, "otp"); err != nil {
		t.Error(err)
	}
	if got := ask(rules.TakePeek, wire.Take{Key: "b", Cost: 2}); !got.Allowed {
		t.Errorf("after all was forgotten: %+v", got)
	}
}
