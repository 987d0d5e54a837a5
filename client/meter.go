package client

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// maxMetered is how much of a body is kept for Transport.Actual, in bytes.
const maxMetered = 1 << 20

// metered is a body that reports what its request used, when it has been read or closed.
type metered struct {
	io.ReadCloser
	done func(text []byte)

	mu   sync.Mutex // Close may be called while Read waits
	text []byte
	more bool // than maxMetered was read
	over bool
}

// meter returns the body of a response that calls report once, with what actual returns.
func meter(
	resp *http.Response, actual func(*http.Response, []byte) map[string]int64, report func(map[string]int64),
) io.ReadCloser {
	m := &metered{ReadCloser: resp.Body}
	m.done = func(text []byte) {
		if m.more {
			report(nil)
			return
		}
		report(actual(resp, text))
	}
	if w, ok := resp.Body.(io.Writer); ok { // of a protocol that was switched to
		return struct {
			*metered
			io.Writer
		}{m, w}
	}
	return m
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.mu.Lock()
	if len(m.text)+n > maxMetered {
		m.more, m.text = true, nil
	} else if !m.more {
		m.text = append(m.text, p[:n]...)
	}
	m.mu.Unlock()
	if err != nil {
		m.end()
	}
	return n, err
}

func (m *metered) Close() error {
	err := m.ReadCloser.Close()
	m.end()
	return err
}

func (m *metered) end() {
	m.mu.Lock()
	over, text := m.over, m.text
	m.over, m.text = true, nil
	m.mu.Unlock()
	if !over {
		m.done(text)
	}
}

// closeSoon ends a turn when its request has ended.
func (t *Turn) closeSoon(ctx context.Context, costs map[string]int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reporting)
	defer cancel()
	t.close(ctx, costs)
}
