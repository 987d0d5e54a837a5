package applycmd

import (
	"encoding/json"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/penstock/penstock/internal/api"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue/boltq"
)

// server starts a server, and returns a run and a client for it.
func server(t *testing.T) (*command.Run, *client.Client) {
	t.Helper()
	engine, err := boltq.Open(t.Context(), filepath.Join(t.TempDir(), "store"), boltq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	handler := api.New(engine, api.Options{})
	s := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.Close()
		handler.Close()
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &command.Run{Ctx: t.Context(), Server: s.URL}
	c, err := r.Client()
	if err != nil {
		t.Fatal(err)
	}
	return r, c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var always = flags{Prune: true, Confirmation: command.Confirmation{Yes: true}}

// A queue that was filled or got a child since it was listed is kept, and one that was changed is an error.
func TestPruneKeepsChangedQueues(t *testing.T) {
	r, api := server(t)
	put := func(name, spec string) {
		t.Helper()
		_, err := api.Put(r.Ctx, name, json.RawMessage(spec), client.Always)
		check(t, err)
	}
	for _, name := range []string{"filled", "parent", "changed", "gone"} {
		put(name, `{"rate": "1/h"}`)
	}
	c := &QueuesCmd{flags: always}
	list, err := c.surplus(r, api, nil)
	check(t, err)
	if _, err := api.Append(r.Ctx, "filled", [][]byte{[]byte(`{"payload":1}`)}); err != nil {
		t.Fatal(err)
	}
	put("parent.child", `{"rate": "1/h"}`)
	put("changed", `{"rate": "2/h"}`)
	check(t, api.Delete(r.Ctx, "gone", client.Always, false))
	want := map[string]string{
		"filled":  "filled is not in the file, but holds jobs now: it was kept",
		"parent":  "parent is not in the file, but has children that stay: it was kept",
		"changed": "it has changed since it was read",
		"gone":    "gone deleted",
	}
	for i := range list {
		a := &list[i]
		err := c.remove(r, api, a)
		got := a.surplusText(false)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, want[a.Queue]) {
			t.Errorf("%s: %q, want %q", a.Queue, got, want[a.Queue])
		}
	}
}

// A rule that a queue uses since it was listed is kept, and one that was changed is an error.
func TestPruneKeepsChangedRules(t *testing.T) {
	r, api := server(t)
	put := func(name, spec string) {
		t.Helper()
		_, err := api.PutRule(r.Ctx, name, json.RawMessage(spec), client.Always)
		check(t, err)
	}
	for _, name := range []string{"m.asked", "changed", "gone"} {
		put(name, `{"algorithm": "gap", "period": "1s"}`)
	}
	c := &RulesCmd{always}
	list, err := c.surplus(r, api, nil)
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	put("changed", `{"algorithm": "gap", "period": "2s"}`)
	_, err = api.Put(r.Ctx, "m", json.RawMessage(`{"rate": "1/s", "rules": ["m.asked"]}`), client.Always)
	check(t, err)
	check(t, api.DeleteRule(r.Ctx, "gone", client.Always, false))
	want := map[string]string{
		"m.asked": "rule m.asked is not in the file, but a queue uses it now: it was kept",
		"gone":    "rule gone deleted",
	}
	for _, a := range list {
		a, err := c.remove(r, api, a)
		if text := a.surplusText(false); a.Rule != "changed" && (err != nil || text != want[a.Rule]) ||
			a.Rule == "changed" && err == nil {
			t.Errorf("%s: %q, %v", a.Rule, text, err)
		}
	}
}
