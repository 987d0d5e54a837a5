package doctor

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/penstock/penstock/deliver"
	"github.com/penstock/penstock/deliver/asynqtarget/asynqtask"
	"github.com/penstock/penstock/deliver/egress"
	"github.com/penstock/penstock/deliver/httptarget"
	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
	"github.com/penstock/penstock/deliver/smtptarget"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

const (
	dialPatience = 3 * time.Second
	dialsAtOnce  = 16
	// maxHosts is the maximum number of hosts to connect to.
	maxHosts = 200
)

// place is the address of targets.
type place struct {
	name string
	port uint16
	tls  bool // implicit TLS with a public authority
}

// targets checks the settings of targets, and connects to them without delivering.
func (v *visit) targets(ctx context.Context) {
	if v.err != nil || v.Target == nil {
		return
	}
	first := map[place]string{} // the first queue of each
	var places []place
	for n := range v.queues {
		q := &v.queues[n]
		if len(q.Deliver) == 0 {
			continue
		}
		at, err := v.placesOf(q)
		if err != nil {
			v.wrong("penstock queue info "+q.Name, "%s: %v", q.Name, err)
			continue
		}
		for _, p := range at {
			if _, there := first[p]; !there {
				first[p] = q.Name
				places = append(places, p)
			}
		}
	}
	left := max(0, len(places)-maxHosts)
	places = places[:len(places)-left]
	errs := make([]error, len(places))
	var all sync.WaitGroup
	free := make(chan struct{}, dialsAtOnce)
	begun := 0
	for n, p := range places {
		free <- struct{}{}
		if ctx.Err() != nil { // the others would look unreachable
			break
		}
		begun++
		all.Go(func() {
			defer func() { <-free }()
			errs[n] = v.connect(ctx, p)
		})
	}
	all.Wait()
	left += len(places) - begun
	for n, err := range errs {
		if err != nil {
			v.unreached(first[places[n]], places[n], err)
		}
	}
	if left > 0 {
		v.warn("penstock top", "%d more hosts were not checked", left)
	}
	if v.silent() && len(places) > 0 {
		v.ok("%s reachable from here", show.Count(int64(len(places)), "host"))
	}
	if v.toAsynq > 0 {
		v.ok("%s into asynq: the rate limits tasks as they enter; workers start their backlog at once, unless "+
			"asynqtarget.Limit limits them too (docs/targets/asynq.md)", show.Count(int64(v.toAsynq), "queue"))
	}
}

// placesOf returns the addresses of a queue's target. A target behind a proxy has none, since only drainers reach it.
func (v *visit) placesOf(q *wire.Queue) (at []place, err error) {
	// An ingress masks secrets, and the mask would not be a valid secret.
	raw := json.RawMessage(strings.ReplaceAll(string(q.Deliver), secrets.Hidden, "hidden"))
	if err := v.Target(q.Name, raw); err != nil {
		return nil, err
	}
	target, err := deliver.Parse(raw)
	if err != nil {
		return nil, err
	}
	if _, ok := target.Setting.(*asynqtask.Target); ok {
		v.toAsynq++
	}
	hosted, ok := target.Setting.(setting.Hosted)
	if !ok {
		return nil, nil
	}
	own := false // it has its own authority or protocol
	switch s := target.Setting.(type) {
	case *httptarget.Target:
		if s.Proxy != "" {
			return nil, nil
		}
		own = s.TLS != nil
	case *smtptarget.SMTP:
		own = s.TLS != smtptarget.ImplicitTLS
	}
	for _, h := range hosted.Hosts() {
		if h.Name != "" {
			at = append(at, place{h.Name, h.Port, h.TLS && !own})
		}
	}
	return at, nil
}

// connect connects as a drainer does before a departure, and closes the connection.
func (v *visit) connect(ctx context.Context, p place) error {
	ctx, cancel := context.WithTimeout(ctx, dialPatience)
	defer cancel()
	conn, err := v.Dial(ctx, "tcp", p.address())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // nothing was sent
	if !p.tls {
		return nil
	}
	return tls.Client(conn, &tls.Config{ServerName: p.name, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
}

func (p place) address() string { return net.JoinHostPort(p.name, strconv.Itoa(int(p.port))) }

// unreached reports why a target cannot be reached, and what to do.
func (v *visit) unreached(queue string, p place, err error) {
	var refused *egress.Refused
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		v.wrong(v.Start+" "+egress.Flag+" "+p.name, "%s: %v", queue, err)
	case errors.As(err, &dns):
		v.wrong("getent hosts "+p.name, "%s: cannot resolve %s: %v", queue, p.name, err)
	case errors.As(err, &cert):
		v.wrong(fmt.Sprintf("openssl s_client -connect %s -servername %s", p.address(), p.name),
			"%s: the certificate of %s is refused: %v", queue, p.address(), err)
	default:
		v.wrong("curl -v telnet://"+p.address(), "%s: cannot connect to %s from here: %v", queue, p.address(), err)
	}
}
