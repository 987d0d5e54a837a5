package redisq

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"redis://h", "[h:6379] user  pass  db 0 master  cluster false tls false"},
		{"redis://u:p%40s@h:1/3", "[h:1] user u pass p@s db 3 master  cluster false tls false"},
		{"redis://:p@[::1]:7", "[[::1]:7] user  pass p db 0 master  cluster false tls false"},
		{"redis://[::1]", "[[::1]:6379] user  pass  db 0 master  cluster false tls false"},
		{"rediss://h", "[h:6379] user  pass  db 0 master  cluster false tls true"},
		{"unix:///run/redis.sock?db=2", "[/run/redis.sock] user  pass  db 2 master  cluster false tls false"},
		{"unix://u:p@/run/redis.sock", "[/run/redis.sock] user u pass p db 0 master  cluster false tls false"},
		{"redis+sentinel://u:p@h1,h2:1/main/4", "[h1:26379 h2:1] user u pass p db 4 master main cluster false tls false"},
		{"rediss+sentinel://h1/main", "[h1:26379] user  pass  db 0 master main cluster false tls true"},
		{"redis+cluster://:p@h1:1,h2", "[h1:1 h2:6379] user  pass p db 0 master  cluster true tls false"},
		{"rediss+cluster://h1/", "[h1:6379] user  pass  db 0 master  cluster true tls true"},
	} {
		o, err := ParseURL(c.url)
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
			continue
		}
		got := fmt.Sprintf(
			"%v user %s pass %s db %d master %s cluster %v tls %v", o.Addrs, o.Username, o.Password, o.DB, o.MasterName,
			o.IsClusterMode, o.TLSConfig != nil,
		)
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.url, got, c.want)
		}
		if o.MaxRetries != -1 || !o.ContextTimeoutEnabled {
			t.Errorf("%s: the client would re-send, or not heed deadlines", c.url)
		}
	}
	o, err := ParseURL("redis+sentinel://h/m?sentinel_username=a&sentinel_password=b")
	if err != nil || o.SentinelUsername != "a" || o.SentinelPassword != "b" {
		t.Errorf("sentinel's password: %+v, %v", o, err)
	}
}

func TestClusterReloadsItsMasters(t *testing.T) {
	o, err := ParseURL("redis+cluster://h")
	if err != nil {
		t.Fatal(err)
	}
	client := NewClient(o)
	defer func() { _ = client.Close() }()
	cluster, ok := client.(*redis.ClusterClient)
	if !ok {
		t.Fatalf("%T is not a client of a cluster", client)
	}
	if got := cluster.Options(); got.ClusterStateReloadInterval != reloadInterval || got.MaxRetries > 0 {
		t.Errorf("reloads every %v with %d retries, want every %v with none", got.ClusterStateReloadInterval,
			got.MaxRetries, reloadInterval)
	}
}

func TestBadURLs(t *testing.T) {
	for _, c := range []struct{ url, want string }{
		{"localhost:6379", "want redis://"},
		{"", "want redis://"},
		{"http://h", "not a scheme"},
		{"redis://", "host is missing"},
		{"redis://h:port", "not a host and port"},
		{"redis://h:70000", "not a host and port"},
		{"redis://h1,h2", "several hosts"},
		{"redis://h/x", "must be a number"},
		{"redis://h/-1", "must be a number"},
		{"redis://h?max_retries=3", "max_retries"},
		{"redis://:sec#ret@h", "%23"},
		{"redis://:sec/ret@h", "%2F"},
		{"redis://:sec%ret@h", "not a URL"},
		{"unix://run/redis.sock", "absolute path"},
		{"redis+sentinel://h", "name the master"},
		{"redis+cluster://h/1", "no databases"},
		{"redis+cluster://h1,,h2", "host is missing"},
		{"rediss://h?ca=/does/not/exist", "ca:"},
	} {
		_, err := ParseURL(c.url)
		if err == nil {
			t.Errorf("%s was taken", c.url)
			continue
		}
		if c.want != "want redis://" && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", c.url, err, c.want)
		}
		if strings.Contains(c.url, "sec") && (strings.Contains(err.Error(), "sec") || strings.Contains(err.Error(), "ret@")) {
			t.Errorf("%s: the error shows the password: %v", c.url, err)
		}
	}
}
