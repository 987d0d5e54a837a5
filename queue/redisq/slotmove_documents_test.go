package redisq_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
)

// While some keys of a partition are away on their way to another node its documents and its audit log are neither read
// nor written; then both go on.
func TestSlotOfDocumentsMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.NewCluster(t, redistest.ClusterOptions{})
	v := open(t, cluster.Client(), redisq.Options{Init: true, Partitions: 1})
	v.put("email", leaky.Unlimited, nil)
	v.putDocument("a", `{}`)
	v.putDocument("b", `{}`)
	v.putDocument("b", "")
	source, err := cluster.NodeOf(t.Context(), "ps{0}")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.Index(cluster.Nodes, source)
	m := &slotMove{
		t: t, cluster: cluster, slot: source.Client().ClusterKeySlot(t.Context(), "ps{0}").Val(), from: source,
		to: cluster.Nodes[(at+1)%len(cluster.Nodes)],
	}
	keys := m.begin()
	for _, first := range []string{"ps{0}J", "ps{0}I", "ps{0}Ir"} {
		m.move([]string{first})
		keys = slices.DeleteFunc(keys, func(key string) bool { return key == first })
		for what, ask := range map[string]func() error{
			"document": func() error { _, err := v.e.Document(v.ctx, "token", "a"); return err },
			"since":    func() error { _, err := v.e.DocumentsSince(v.ctx, 0, 10); return err },
			"put": func() error {
				d := document.Document{Kind: "token", Name: "a", Text: []byte(`1`)}
				_, err := v.e.PutDocument(v.ctx, d, queue.AnyRevision)
				return err
			},
			"record": func() error { return v.e.Record(v.ctx, audit.Entry{Of: "app", Name: "a", What: "refused"}) },
			"audit":  func() error { _, err := v.e.Audit(v.ctx, audit.Request{Limit: 10}); return err },
			"put queue": func() error {
				_, err := v.e.Put(v.ctx, queue.Spec{Name: "email", Rate: leaky.PerSecond(1)}, queue.AnyRevision)
				return err
			},
		} {
			if err := ask(); !errors.Is(err, queue.ErrUnavailable) {
				t.Errorf("%s without %s: %v, want unavailable", what, first, err)
			}
		}
	}
	m.move(keys)
	m.end()
	v.putDocument("c", `{}`)
	if names := v.since(0, 10); !slices.Equal(names, []string{"a", "-b", "c"}) {
		t.Errorf("%v", names)
	}
	if all, _ := v.audit(0); len(all) != 5 {
		t.Errorf("%d entries, want 5", len(all))
	}
}
