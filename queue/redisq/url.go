package redisq

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/penstock/penstock/internal/clip"
)

const (
	redisPort    = "6379"
	sentinelPort = "26379"

	urlForms = "want redis://[USER:PASSWORD@]HOST[:PORT][/DB], unix:///PATH[?db=N], " +
		"redis+sentinel://[USER:PASSWORD@]HOST:PORT,HOST:PORT/MASTER[/DB] or redis+cluster://HOST:PORT,HOST:PORT; rediss " +
		"instead of redis for TLS"
)

// poolSize is the maximum number of connections to one server. Each partition has only a few calls under way, and few
// partitions have them at the same instant.
const poolSize = 64

// reloadInterval is how long a client of a Cluster trusts its list of masters. The engine reloads the list after a call
// without an answer. This bounds how long a client without such calls can be wrong; go-redis waits a minute.
const reloadInterval = 5 * time.Second

// ParseURL returns client options for the URL of a Redis, a Sentinel or a Cluster, with the settings that an Engine
// needs. Errors never contain the password.
func ParseURL(raw string) (*redis.UniversalOptions, error) {
	u, err := splitURL(raw)
	if err != nil {
		return nil, err
	}
	o := clientOptions()
	if u.User != nil {
		o.Username = u.User.Username()
		o.Password, _ = u.User.Password()
	}
	scheme, secure := u.Scheme, false
	if rest, ok := strings.CutPrefix(scheme, "rediss"); ok {
		scheme, secure = "redis"+rest, true
	}
	switch scheme {
	case "redis":
		o.Addrs, err = hosts(u.Host, redisPort, 1)
		if err == nil {
			o.DB, err = database(u.Path)
		}
	case "unix":
		o.Addrs = []string{u.Path}
		if u.Host != "" || u.Path == "" || u.Path == "/" {
			err = errors.New("it needs an absolute path, as in unix:///run/redis.sock")
		}
		if s := u.Query().Get("db"); s != "" && err == nil {
			o.DB, err = database("/" + s)
		}
	case "redis+sentinel":
		master, db, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
		if o.MasterName = master; master == "" {
			return nil, errors.New("it does not name the master, as in redis+sentinel://HOST:26379/mymaster")
		}
		if o.Addrs, err = hosts(u.Host, sentinelPort, 0); err == nil && db != "" {
			o.DB, err = database("/" + db)
		}
	case "redis+cluster":
		o.IsClusterMode = true
		o.Addrs, err = hosts(u.Host, redisPort, 0)
		if err == nil && strings.Trim(u.Path, "/") != "" {
			err = errors.New("a cluster has no databases: leave out what is behind the hosts")
		}
	default:
		return nil, fmt.Errorf("%s is not a scheme of it; %s", clip.Quote(u.Scheme, 60), urlForms)
	}
	if err != nil {
		return nil, err
	}
	if secure {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return o, parameters(o, u, scheme)
}

// clientOptions returns the options that every client of an engine needs.
func clientOptions() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		// An engine repeats calls in its own way. A client that sends calls again by itself would change things twice.
		MaxRetries:            -1,
		ContextTimeoutEnabled: true,
		PoolSize:              poolSize,
		MinIdleConns:          2,
		DialTimeout:           time.Second,
		DialerRetries:         1,
		ReadTimeout:           3 * time.Second,
		WriteTimeout:          3 * time.Second,
		DisableIdentity:       true,
		// Some managed servers have this feature; others answer with an error at each connect.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// NewClient returns a client for options of ParseURL. redis.NewUniversalClient cannot set how often a Cluster's masters
// are reloaded.
func NewClient(o *redis.UniversalOptions) redis.UniversalClient {
	if !o.IsClusterMode {
		return redis.NewUniversalClient(o)
	}
	cluster := o.Cluster()
	cluster.ClusterStateReloadInterval = reloadInterval
	return redis.NewClusterClient(cluster)
}

// splitURL is url.Parse for URLs with several hosts, each with a port, which url.Parse refuses.
func splitURL(raw string) (*url.URL, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok {
		return nil, errors.New(urlForms)
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if location, _, _ := strings.Cut(path, "?"); strings.Contains(location, "@") && !strings.Contains(authority, "@") {
		return nil, errors.New("it has a / or # before its @; in a password they must be written as %2F and %23")
	}
	user, host := "", authority
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		user, host = authority[:i+1], authority[i+1:]
	}
	u, err := url.Parse("x://" + user + "host" + path)
	if err != nil { // its text has the password in it
		return nil, errors.New(
			"it is not a URL; characters such as @ : / in a password must be written as %40 %3A %2F; " + urlForms,
		)
	}
	if u.Fragment != "" {
		return nil, errors.New("it has a # in it; in a password that must be written as %23")
	}
	u.Scheme, u.Host = scheme, host
	return u, nil
}

// hosts reads host:port,host:port; most is the maximum number, 0 for any number.
func hosts(list, port string, most int) ([]string, error) {
	var addrs []string
	for h := range strings.SplitSeq(list, ",") {
		if h == "" {
			return nil, errors.New("a host is missing; " + urlForms)
		}
		name, p, err := net.SplitHostPort(h)
		if err != nil {
			name, p = strings.Trim(h, "[]"), port
		}
		if n, err := strconv.Atoi(p); err != nil || n < 1 || n > 65535 || strings.ContainsAny(name, " /@") || name == "" {
			return nil, fmt.Errorf("%s is not a host and port", clip.Quote(h, 60))
		}
		addrs = append(addrs, net.JoinHostPort(name, p))
	}
	if most > 0 && len(addrs) > most {
		return nil, errors.New("it has several hosts; say redis+cluster:// or redis+sentinel:// for those")
	}
	return addrs, nil
}

func database(path string) (int, error) {
	s := strings.Trim(path, "/")
	if s == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > 1<<16 {
		return 0, fmt.Errorf("database %s must be a number", clip.Quote(s, 60))
	}
	return n, nil
}

// parameters reads the query of the URL.
func parameters(o *redis.UniversalOptions, u *url.URL, scheme string) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return errors.New("the query cannot be parsed")
	}
	for name, values := range query {
		value := values[len(values)-1]
		switch {
		case name == "db" && scheme == "unix":
		case name == "sentinel_username" && scheme == "redis+sentinel":
			o.SentinelUsername = value
		case name == "sentinel_password" && scheme == "redis+sentinel":
			o.SentinelPassword = value
		case (name == "ca" || name == "cert" || name == "key") && o.TLSConfig != nil:
		default:
			return fmt.Errorf(
				"parameter %s is not known for %s://; there are db (unix), sentinel_username and sentinel_password (sentinel), "+
					"ca=FILE, cert=FILE and key=FILE (rediss)",
				clip.Quote(name, 60), u.Scheme,
			)
		}
	}
	if o.TLSConfig == nil {
		return nil
	}
	files := TLSFiles{CA: query.Get("ca"), Cert: query.Get("cert"), Key: query.Get("key")}
	return files.Apply(o.TLSConfig)
}
