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
	"github.com/penstock/penstock/internal/wire"
)

const (
	dialPatience = 3 * time.Second
	dialsAtOnce  = 16
	// mostHosts is how many are connected to.
	mostHosts = 200
)

// place is where targets are.
type place struct {
	name string
	port uint16
	tls  bool // from the first byte, by an authority that all know
}

// targets says whether targets can be used, and connects to them without delivering.
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
	left := max(0, len(places)-mostHosts)
	places = places[:len(places)-left]
	errs := make([]error, len(places))
	var all sync.WaitGroup
	free := make(chan struct{}, dialsAtOnce)
	begun := 0
	for n, p := range places {
		free <- struct{}{}
		if ctx.Err() != nil { // the rest would be told as if they could not be reached
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
		v.warn("penstock top", "%d more hosts were not connected to", left)
	}
	if v.silent() && len(places) > 0 {
		v.ok("%s can be connected to from here", count(len(places), "host"))
	}
	if v.toAsynq > 0 {
		v.ok("%s into asynq: the rate is that of tasks which enter; workers start a backlog of their own at once, unless "+
			"asynqtarget.Limit holds them to a rate (docs/targets/asynq.md)", count(v.toAsynq, "queue"))
	}
}

// placesOf are those of a queue's target. One whose connections go by a proxy has none: only drainers have that.
func (v *visit) placesOf(q *wire.Queue) (at []place, err error) {
	// An ingress hides what is secret, which is checked to be no secret that a target could have.
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
	own := false // it has an authority, or a way, of its own
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

// connect does as a drainer does before a departure, and ends the connection.
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

// unreached tells why, and what to do about it.
func (v *visit) unreached(queue string, p place, err error) {
	var refused *egress.Refused
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &refused):
		v.wrong(v.Start+" "+egress.Flag+" "+p.name, "%s: %v", queue, err)
	case errors.As(err, &dns):
		v.wrong("getent hosts "+p.name, "%s: %s has no address: %v", queue, p.name, err)
	case errors.As(err, &cert):
		v.wrong(fmt.Sprintf("openssl s_client -connect %s -servername %s", p.address(), p.name),
			"%s: the certificate of %s is refused: %v", queue, p.address(), err)
	default:
		v.wrong("curl -v telnet://"+p.address(), "%s: %s cannot be connected to from here: %v", queue, p.address(), err)
	}
}
