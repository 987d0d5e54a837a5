package faultproxy

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// readFrame reads one whole value of RESP 2 or 3 and returns its bytes, to be passed on unchanged. An attribute (|)
// belongs to the value that follows it.
func readFrame(r *bufio.Reader) ([]byte, error) { return appendFrame(nil, r) }

func appendFrame(frame []byte, r *bufio.Reader) ([]byte, error) {
	start := len(frame)
	frame, err := appendLine(frame, r)
	if err != nil {
		return frame, err
	}
	line := frame[start:]
	var children int
	switch kind := line[0]; kind {
	case '+', '-', ':', '_', ',', '#', '(':
		return frame, nil
	case '$', '!', '=', '*', '~', '>', '%', '|':
		n, err := length(line)
		if err != nil {
			return frame, err
		}
		switch {
		case n < 0: // RESP 2's null
			return frame, nil
		case kind == '$' || kind == '!' || kind == '=':
			return appendN(frame, r, n+len("\r\n"))
		case kind == '%':
			children = 2 * n
		case kind == '|':
			children = 2*n + 1
		default:
			children = n
		}
	default:
		return frame, fmt.Errorf("not RESP: a value that begins %.20q", line)
	}
	for range children {
		if frame, err = appendFrame(frame, r); err != nil {
			return frame, err
		}
	}
	return frame, nil
}

// readCommand reads one command, an array of bulk strings or inline. It returns its bytes and its arguments, which
// share memory.
func readCommand(r *bufio.Reader) (frame []byte, args [][]byte, err error) {
	if frame, err = appendLine(nil, r); err != nil {
		return frame, nil, err
	}
	if frame[0] != '*' {
		return frame, bytes.Fields(frame), nil
	}
	n, err := length(frame)
	if err != nil {
		return frame, nil, err
	}
	type span struct{ from, to int }
	var spans []span // and not slices, because frame moves as it grows
	for range n {
		start := len(frame)
		if frame, err = appendLine(frame, r); err != nil {
			return frame, nil, err
		}
		if frame[start] != '$' {
			return frame, nil, fmt.Errorf("not RESP: an argument that begins %.20q", frame[start:])
		}
		size, err := length(frame[start:])
		if err != nil {
			return frame, nil, err
		}
		from := len(frame)
		if frame, err = appendN(frame, r, size+len("\r\n")); err != nil {
			return frame, nil, err
		}
		spans = append(spans, span{from, from + size})
	}
	for _, s := range spans {
		args = append(args, frame[s.from:s.to])
	}
	return frame, args, nil
}

// appendLine appends a line and its CRLF. The line has at least one byte before them.
func appendLine(frame []byte, r *bufio.Reader) ([]byte, error) {
	start := len(frame)
	for {
		part, err := r.ReadSlice('\n')
		frame = append(frame, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil {
			return frame, err
		}
		if line := frame[start:]; len(line) < 3 || line[len(line)-2] != '\r' {
			return frame, fmt.Errorf("not RESP: a line that ends %.20q", line[max(0, len(line)-20):])
		}
		return frame, nil
	}
}

func appendN(frame []byte, r *bufio.Reader, n int) ([]byte, error) {
	start := len(frame)
	frame = append(frame, make([]byte, n)...)
	_, err := io.ReadFull(r, frame[start:])
	return frame, err
}

// length parses the number in a line like "*3\r\n".
func length(line []byte) (int, error) {
	n, err := strconv.Atoi(string(bytes.TrimSpace(line[1:])))
	if err != nil {
		return 0, fmt.Errorf("not RESP: a length %.20q", line)
	}
	return n, nil
}

// isPublished reports whether a reply in the form of RESP 2 belongs to a subscription, and not to a command.
func isPublished(frame []byte) bool {
	_, rest, _ := bytes.Cut(frame, []byte("\r\n"))
	_, rest, _ = bytes.Cut(rest, []byte("\r\n"))
	kind, _, _ := bytes.Cut(rest, []byte("\r\n"))
	switch string(kind) {
	case "message", "pmessage", "smessage",
		"subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe":
		return frame[0] == '*'
	}
	return false
}
