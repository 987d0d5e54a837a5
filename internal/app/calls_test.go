package app_test

import (
	"bufio"
	"encoding/json"
	"net"
	"testing"

	"github.com/penstock/penstock/internal/test/await"
	"github.com/penstock/penstock/internal/wire"
)

// A queue shows the calls that wait at the server that answers, and those whose answers have not ended.
func TestCallsOfAQueue(t *testing.T) {
	g := newGateway(t)
	ended := make(chan struct{})
	receiver := newRawReceiver(t, func(_ string, in *bufio.Reader, conn net.Conn) {
		_, _ = conn.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"))
		<-ended
		_, _ = conn.Write([]byte("ok"))
	})
	g.put("q", receiver.url, `"rate":"1/m"`, "")
	g.put("other", receiver.url, `"rate":"1/m"`, "")
	shown := func(name string) *wire.Calls {
		var q wire.Queue
		a := g.call("GET", "/v1/queues/"+name+"?max_age=0s", "")
		if err := json.Unmarshal([]byte(a.text), &q); err != nil || q.Flow == nil {
			t.Fatalf("%d %s", a.status, a.text)
		}
		return q.Calls
	}
	first, second := make(chan reply, 1), make(chan reply, 1)
	go func() { first <- g.call("GET", "/proxy/q/a", "") }()
	await.Until(t, "a call is active", func() bool { return *shown("q") == wire.Calls{Active: 1} })
	go func() { second <- g.call("GET", "/proxy/q/b", "", "Penstock-Wait", "10m") }()
	await.Until(t, "another waits", func() bool { return *shown("q") == wire.Calls{Waiting: 1, Active: 1} })
	if *shown("other") != (wire.Calls{}) {
		t.Errorf("%+v", shown("other"))
	}
	close(ended)
	if a := <-first; a.status != 200 {
		t.Errorf("%d %s", a.status, a.text)
	}
	await.Until(t, "the first has ended", func() bool { return *shown("q") == wire.Calls{Waiting: 1} })
	g.stop()
	<-second
}
