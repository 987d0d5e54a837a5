package redistest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// probe asks the server at addr for its process ID. The server answers only once it serves commands, and not while it
// loads its data. probe uses its own connection, because a client pool pauses for a second after some failed
// connections.
func probe(ctx context.Context, addr, password string) (pid int, err error) {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp4", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return 0, err
	}
	request := "PING\r\nINFO server\r\n"
	replies := []string{"PONG"}
	if password != "" {
		request = "AUTH " + strconv.Quote(password) + "\r\n" + request
		replies = []string{"OK", "PONG"}
	}
	if _, err := io.WriteString(conn, request); err != nil {
		return 0, err
	}
	r := bufio.NewReader(conn)
	for _, want := range replies {
		got, err := r.ReadString('\n')
		if err != nil {
			return 0, err
		}
		if strings.TrimSpace(got) != "+"+want {
			return 0, fmt.Errorf("%s answered %q", addr, strings.TrimSpace(got))
		}
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return 0, fmt.Errorf("%s: no process_id in its INFO: %w", addr, err)
		}
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "process_id:"); ok {
			return strconv.Atoi(value)
		}
	}
}
