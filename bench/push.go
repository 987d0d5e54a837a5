package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
)

// pushDeferred streams count jobs to an ingress as lines, as fast as it accepts them; each must be answered as
// deferred.
func pushDeferred(ctx context.Context, url string, count int64) error {
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	_, err := together(ctx, pushers, pushers, func(ctx context.Context) error {
		return pushLines(ctx, &http.Client{Transport: transport}, url, count/pushers)
	})
	return err
}

// pushLines sends one stream, and reads the answers at the same time.
func pushLines(ctx context.Context, client *http.Client, url string, count int64) error {
	body, w := io.Pipe()
	defer func() { _ = body.Close() }() // ends the writer if the answers end early
	go func() {
		filler := bytes.Repeat([]byte("x"), payloadBytes-20)
		b := bufio.NewWriterSize(w, 64<<10)
		for range count {
			if _, err := fmt.Fprintf(b, `{"id":"%s","payload":{"to":"a","text":"%s"}}`+"\n", newID(), filler); err != nil {
				return
			}
		}
		_ = w.CloseWithError(b.Flush())
	}()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	answers := int64(0)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if !bytes.Contains(lines.Bytes(), []byte(`"state":"deferred"`)) {
			return fmt.Errorf("status %d; a job was not deferred: %s", answer.StatusCode, lines.Bytes())
		}
		answers++
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if answers != count {
		return fmt.Errorf("status %d; %d of %d jobs were answered", answer.StatusCode, answers, count)
	}
	return nil
}
