package deploytest

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/penstock/penstock/internal/changekind"
	"github.com/penstock/penstock/internal/document"
	"github.com/penstock/penstock/internal/test/redistest"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/redisq"
	"github.com/penstock/penstock/queue/rules"
)

// redisUsers is a Redis that has the users of redis/users.conf. The test itself comes as the default user, which is off
// there.
type redisUsers struct {
	*redistest.Server
	t     *testing.T
	admin *redis.Client
}

func startRedisUsers(t *testing.T) *redisUsers {
	t.Helper()
	const off = "\nuser default off\n"
	text := load(t)["redis/users.conf"]
	if !strings.Contains(text, off) {
		t.Fatal("the default user is not off")
	}
	file := filepath.Join(t.TempDir(), "users.conf")
	write(t, file, strings.Replace(text, off, "\n", 1))
	s := redistest.New(t, redistest.Options{Args: []string{"--include", file}})
	return &redisUsers{Server: s, t: t, admin: s.Client()}
}

// as returns a client that comes as a user.
func (s *redisUsers) as(user string) *redis.Client {
	o := *s.Client().Options()
	name, _, _ := strings.Cut(user, "-")
	o.Username, o.Password = user, strings.ToUpper(name)+"_PASSWORD"
	o.MaxRetries = -1 // a client has it as 0, which would mean the default
	c := redis.NewClient(&o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *redisUsers) engine(user string) *redisq.Engine {
	s.t.Helper()
	e, err := redisq.OpenClient(s.t.Context(), s.as(user), redisq.Options{
		Init: strings.HasPrefix(user, "ingress"), Patience: redistest.Patience,
	})
	if err != nil {
		s.t.Fatalf("%s: %v", user, err)
	}
	s.t.Cleanup(func() { _ = e.Close() })
	return e
}

// refusals are what Redis refused since it was asked last.
func (s *redisUsers) refusals() (all []string) {
	s.t.Helper()
	log, err := s.admin.ACLLog(s.t.Context(), 100).Result()
	if err == nil {
		err = s.admin.ACLLogReset(s.t.Context()).Err()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range log {
		all = append(all, fmt.Sprintf("%s: %s %s", r.Username, r.Reason, r.Object))
	}
	return all
}

func (s *redisUsers) do(what string, err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

func (s *redisUsers) append(e *redisq.Engine, j queue.Job) {
	s.t.Helper()
	got, err := e.Append(s.t.Context(), []queue.Job{j})
	s.do("append", err)
	if got[0].Outcome != queue.Accepted {
		s.t.Fatalf("%v: %v", got[0].Outcome, got[0].Err)
	}
}

// With the users of redis/users.conf every process does its work: an ingress what the API offers, a drainer what
// leaves.
func TestRedisUsers(t *testing.T) {
	s := startRedisUsers(t)
	ctx := t.Context()
	in, out, pulls := s.engine("ingress"), s.engine("drainer"), s.engine("ingress-pull")
	ingressWork(s, in)
	woken := out.Wake(ctx)
	for range 2 { // jobs that are appended wake who drains
		s.append(in, queue.Job{Queue: "mail", ID: queue.NewID(), Payload: []byte("1"), Lane: "x"})
		drainerWork(s, out, "")
	}
	select {
	case <-woken:
	case <-time.After(redistest.Patience):
		t.Error("a drainer is not woken")
	}
	// An ingress tells what each drainer was granted.
	d, err := in.Drainers(ctx)
	if s.do("tell the drainers", err); len(d.Seen) == 0 || d.Seen[0].Outflow == 0 {
		t.Errorf("an ingress is told of %+v", d)
	}
	// A drainer learns which apps there are.
	page, err := out.DocumentsSince(ctx, 0, 10)
	if s.do("read documents", err); len(page.Documents) == 0 {
		t.Error("a drainer is told of no document")
	}
	// A drainer records that a pause is over.
	s.do("pause for a while", in.Pause(ctx, "mail", queue.Pause{Until: time.Now().Add(200 * time.Millisecond)}))
	s.append(in, queue.Job{Queue: "mail", ID: "later", Payload: []byte("1"), Lane: "x"})
	drainerWork(s, out, "")
	s.append(pulls, queue.Job{Queue: "pulled", ID: "p", Payload: []byte("1")})
	drainerWork(s, pulls, "pulled")
	if r := s.refusals(); len(r) > 0 {
		t.Errorf("refused in what they are to do: %q", r)
	}
}

// ingressWork does all kinds of things that an ingress does.
func ingressWork(s *redisUsers, e *redisq.Engine) {
	ctx := s.t.Context()
	put := func(text string) {
		spec, err := queue.ParseSpec([]byte(text))
		s.do(text, err)
		_, err = e.Put(ctx, spec, queue.AnyRevision)
		s.do(text, err)
	}
	rule, err := rules.Parse([]byte(`{"name":"mail.sender","algorithm":"token_bucket","rate":"5/s","burst":5,` +
		`"key":"{lane}"}`))
	s.do("rule", err)
	_, err = e.PutRule(ctx, rule, queue.AnyRevision)
	s.do("put a rule", err)
	put(`{"name":"mail","rate":"1000/s","burst":100,"lanes":{"rate":"500/s"},"rules":["mail.sender"]}`)
	put(`{"name":"mail.bulk","rate":"100/s"}`)
	put(`{"name":"pulled","rate":"1000/s","burst":10,"pull":true}`)
	s.do("pause", e.Pause(ctx, "mail.bulk", queue.Pause{Reason: "test"}))
	s.append(e, queue.Job{Queue: "mail.bulk", ID: "b", Payload: []byte("1"), Lane: "x"})
	_, err = e.Cancel(ctx, "mail.bulk", "b")
	s.do("cancel", err)
	s.do("resume", e.Resume(ctx, "mail.bulk"))
	_, err = e.Purge(ctx, queue.PurgeRequest{Queue: "mail.bulk", State: queue.Waiting, Limit: 100})
	s.do("purge", err)
	_, err = e.Take(ctx, "mail.sender", []rules.Take{{Key: "k", Cost: 1}})
	s.do("take", err)
	s.do("reset", e.ResetRule(ctx, "mail.sender"))
	_, err = e.List(ctx, "", 10)
	s.do("list", err)
	_, err = e.History(ctx, "mail")
	s.do("history", err)
	_, err = e.Rollback(ctx, "mail.bulk", 0, queue.AnyRevision)
	if err != nil && !strings.Contains(err.Error(), "revision") {
		s.do("rollback", err)
	}
	s.do("delete", e.Delete(ctx, "mail.bulk", queue.AnyRevision, true))
	_, err = e.PutDocument(ctx, document.Document{Kind: "app", Name: "a", Text: []byte(`{}`)}, queue.AnyRevision)
	s.do("put a document", err)
	_, err = e.DocumentsSince(ctx, 0, 10)
	s.do("documents", err)
	s.do("record", e.Record(ctx, audit.Entry{Of: "app", Name: "a", What: changekind.Refused, Refused: "forbidden"}))
	_, err = e.Audit(ctx, audit.Request{Limit: 10})
	s.do("audit", err)
	_, err = e.Totals(ctx)
	s.do("totals", err)
	_, err = e.Space(ctx)
	s.do("space", err)
	_, err = e.Drainers(ctx)
	s.do("drainers", err)
	s.do("check", e.Check(ctx))
	for p := range e.Partitions() {
		_, err = e.Sweep(ctx, p)
		s.do("sweep", err)
	}
}

// drainerWork takes a job out of a queue, or of any if it has no name.
func drainerWork(s *redisUsers, e *redisq.Engine, name string) {
	s.t.Helper()
	client := queue.Client{ID: queue.NewID(), Name: "test"}
	for number, deadline := uint64(1), time.Now().Add(redistest.Patience); time.Now().Before(deadline); number++ {
		for p := range e.Partitions() {
			r, err := e.Reserve(s.t.Context(), queue.ReserveRequest{
				Partition: p, Client: client, Number: number, Max: 10, Queue: name,
			})
			s.do("reserve", err)
			for _, j := range r.Jobs {
				l := queue.Lease{Queue: j.Queue, ID: j.ID, Fence: j.Fence}
				_, err := e.Extend(s.t.Context(), []queue.Lease{l})
				s.do("extend", err)
				_, err = e.Settle(s.t.Context(), []queue.Settlement{{Lease: l, Verdict: queue.Deliver}})
				s.do("settle", err)
			}
			if len(r.Jobs) > 0 {
				return
			}
		}
	}
	s.t.Fatal("nothing leaves")
}

// Nobody can do what is not his: an ingress takes no job out and sees no grant, a drainer changes no rule and forges no
// record, and neither reads or removes what is not of a store.
func TestRedisUsersRights(t *testing.T) {
	s := startRedisUsers(t)
	in, out := s.engine("ingress"), s.engine("drainer")
	ingressWork(s, in)
	ctx := t.Context()
	reserve := func(id string) error {
		var err error
		for p := 0; err == nil && p < in.Partitions(); p++ {
			_, err = in.Reserve(ctx, queue.ReserveRequest{
				Partition: p, Client: queue.Client{ID: id, Name: "test"}, Number: 1, Max: 10,
			})
		}
		return err
	}
	rule, err := rules.Parse([]byte(`{"name":"mail.other","algorithm":"token_bucket","rate":"5/s","burst":5,` +
		`"key":"{lane}"}`))
	s.do("rule", err)
	for what, do := range map[string]func() error{
		"ingress reserves":                           func() error { return reserve("c") },
		"ingress reserves as one whose id ends so }": func() error { return reserve("c}x") },
		"drainer puts a rule": func() error {
			_, err := out.PutRule(ctx, rule, queue.AnyRevision)
			return err
		},
		"drainer puts a document": func() error {
			_, err := out.PutDocument(ctx, document.Document{Kind: "app", Name: "a"}, queue.AnyRevision)
			return err
		},
		"drainer reads a rule":    func() error { _, err := out.Rule(ctx, "mail.sender"); return err },
		"drainer deletes a queue": func() error { return out.Delete(ctx, "mail", queue.AnyRevision, true) },
		"drainer pauses":          func() error { return out.Pause(ctx, "mail", queue.Pause{Reason: "forged"}) },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), "NOPERM") && !strings.Contains(err.Error(), "access") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, user := range []string{"ingress", "ingress-pull", "drainer"} {
		c := s.as(user)
		for _, command := range []string{
			"FLUSHALL", "FLUSHDB", "KEYS *", "SCAN 0", "RANDOMKEY", "CONFIG GET *", "CONFIG SET maxmemory 1", "DEBUG SLEEP 0",
			"ACL LIST", "ACL SETUSER x on", "MONITOR", "SHUTDOWN NOSAVE", "REPLICAOF no one", "SWAPDB 0 1", "MOVE ps{0} 1",
			"SAVE", "BGREWRITEAOF", "SLOWLOG GET", "CLIENT LIST", "CLIENT KILL ID 1", "CLIENT PAUSE 1", "SCRIPT FLUSH",
			"FUNCTION FLUSH", "GET other", "SET other 1", "DEL other", "GET ps{x}", "PUBLISH other x", "SUBSCRIBE other",
			"EVAL redis.call('FLUSHALL') 0", "EVAL redis.call('SET','other','1') 0",
		} {
			if err := denied(ctx, c, command); err == nil {
				t.Errorf("%s may %s", user, command)
			}
		}
	}
	for _, command := range []string{
		"HSET ps{0}I app:a x", "HDEL ps{0}I app:a", "DEL ps{0}I", "ZADD ps{0}Ir 1 app:a", "DEL ps{0}Id", "HGETALL ps{0}I",
		"RENAME ps{0}I ps{0}x", "EVAL redis.call('HSET','ps{0}I','app:a','x') 0",
		"XADD ps{0}J MAXLEN 0 * a b", "XTRIM ps{0}J MAXLEN 0", "XTRIM ps{4095}J MINID = 9", "XRANGE ps{0}J - +",
		"XLEN ps{12}J", "XINFO STREAM ps{0}J", "EXISTS ps{0}J", "EVAL redis.call('XTRIM','ps{0}J','MAXLEN','0') 0",
	} {
		if err := denied(ctx, s.as("drainer"), command); err == nil {
			t.Errorf("drainer may %s", command)
		}
	}
	for _, command := range []string{
		"GET ps{0}g:c", "GET ps{12}g:c", "MGET ps{0}g:c", "STRLEN ps{123}g:c", "EXISTS ps{4095}g:c", "SET ps{0}g:c x",
		"EVAL redis.call('GET','ps{0}g:c') 0",
	} {
		if err := denied(ctx, s.as("ingress"), command); err == nil {
			t.Errorf("ingress may %s", command)
		}
	}
	for _, user := range []string{"ingress", "ingress-pull", "drainer"} {
		s.rootIsSafe(user)
		s.auditIsSafe(user)
	}
	anonymous := redis.NewClient(&redis.Options{Addr: s.Addr(), Username: "ingress", Password: "guessed", MaxRetries: -1})
	defer anonymous.Close()
	if err := anonymous.Ping(ctx).Err(); err == nil {
		t.Error("a wrong password is let in")
	}
}

// rootIsSafe checks that a user cannot remove the root of a partition, nor put anything in its place.
func (s *redisUsers) rootIsSafe(user string) {
	s.t.Helper()
	ctx, c := s.t.Context(), s.as(user)
	for _, command := range []string{
		"DEL ps{0}", "UNLINK ps{0}", "DEL ps{4095}", "DEL ps{0}a ps{0}", "RENAME ps{0} ps{0}x", "RENAME ps{0}x ps{0}",
		"RENAMENX ps{0}x ps{0}", "COPY ps{0}x ps{0} REPLACE", "EXPIRE ps{0} 1", "PEXPIRE ps{12} 1", "EXPIREAT ps{0} 1",
		"PERSIST ps{0}", "SET ps{0} x", "GETDEL ps{0}", "GETEX ps{0} EX 1", "SORT ps{0}a STORE ps{0}",
		"ZUNIONSTORE ps{0} 1 ps{0}a", "HEXPIRE ps{0} 1 FIELDS 1 schema", "HGETDEL ps{0} FIELDS 1 schema", "XADD ps{0} * a b",
		"RESTORE ps{0} 0 x REPLACE", "EVAL redis.call('DEL','ps{0}') 0", "EVAL redis.call('DEL',KEYS[1]) 1 ps{0}",
	} {
		if err := denied(ctx, c, command); err == nil && !strings.Contains(fmt.Sprint(s.unknown(command)), "unknown") {
			s.t.Errorf("%s may %s", user, command)
		}
	}
	for _, command := range []string{"HGET ps{0} schema", "HMGET ps{4095} schema store", "EVAL return(1) 1 ps{0}"} {
		if err := denied(ctx, c, command); err != nil {
			s.t.Errorf("%s may not %s: %v", user, command, err)
		}
	}
}

// unknown is what Redis says of a command that this version does not have.
func (s *redisUsers) unknown(command string) error {
	name, _, _ := strings.Cut(command, " ")
	return s.admin.Do(s.t.Context(), name).Err()
}

// auditIsSafe checks that an ingress removes nothing of the audit log but its oldest entries, and puts nothing in its
// place, and that a drainer does nothing with it.
func (s *redisUsers) auditIsSafe(user string) {
	s.t.Helper()
	ctx, c := s.t.Context(), s.as(user)
	s.admin.Copy(ctx, "ps{0}J:nobody", "ps{0}jcopy", 0, true)
	defer s.admin.Del(ctx, "ps{0}jcopy")
	for _, command := range []string{
		"DEL ps{0}J:nobody", "UNLINK ps{0}J:nobody", "RENAME ps{0}J:nobody ps{0}j",
		"RENAME ps{0}jcopy ps{0}J:nobody", "RENAMENX ps{0}jcopy ps{0}J:nobody",
		"COPY ps{0}jcopy ps{0}J:nobody REPLACE", "XDEL ps{0}J:nobody 1-0", "XSETID ps{0}J:nobody 9-0",
		"EXPIRE ps{0}J:nobody 1", "PEXPIRE ps{0}J:nobody 1",
		"EXPIREAT ps{0}J:nobody 1", "SET ps{0}J:nobody x", "HSET ps{0}J:nobody a b",
		"RESTORE ps{0}J:nobody 0 x REPLACE", "MIGRATE a 1 ps{0}J:nobody 0 1",
		"SORT ps{0}jcopy STORE ps{0}J:nobody", "ZUNIONSTORE ps{0}J:nobody 1 ps{0}a",
		"XGROUP CREATE ps{0}J:nobody g 0", "GETDEL ps{0}J:nobody",
		"DEL ps{0}J:nobody ps{0}jcopy", "EVAL redis.call('DEL','ps{0}J:nobody') 0",
		"EVAL redis.call('XDEL','ps{0}J:nobody','1-0') 0",
		"EVAL redis.call('DEL','ps{4095}J:nobody') 0", "XDEL ps{12}J:nobody 1-0", "XDEL ps{123}J:nobody 1-0", "DEL ps{0}J0",
		"DEL ps{0}J", "ZREM ps{0}J nobody", "ZPOPMIN ps{0}J", "ZREMRANGEBYRANK ps{0}J 0 -1", "RENAME ps{0}J ps{0}j",
		"ZRANGESTORE ps{0}J ps{0}a 0 -1",
	} {
		if err := denied(ctx, c, command); err == nil {
			s.t.Errorf("%s may %s", user, command)
		}
	}
	for _, command := range []string{
		"XRANGE ps{0}J:nobody - + COUNT 1", "XINFO STREAM ps{4095}J:nobody", "XTRIM ps{0}J:nobody MINID = 0",
		"XLEN ps{0}jcopy",
		"ZADD ps{0}J 1 nobody", "ZRANGE ps{0}J 0 -1",
	} {
		if err := denied(ctx, c, command); (err != nil) != (user == "drainer" && command != "XLEN ps{0}jcopy") {
			s.t.Errorf("%s may %s: %v", user, command, err)
		}
	}
}

// denied is why Redis refuses a command to its user; nil if it does not.
func denied(ctx context.Context, c *redis.Client, command string) error {
	var args []any
	for _, word := range strings.Fields(command) {
		args = append(args, word)
	}
	err := c.Do(ctx, args...).Err()
	if err != nil && (strings.Contains(err.Error(), "permission") ||
		strings.Contains(err.Error(), "executing the script can't")) {
		return err
	}
	return nil
}
