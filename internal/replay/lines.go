package replay

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes is the maximum length of a line. Longer lines are skipped and count as broken.
const MaxLineBytes = 1 << 20

var errLong = fmt.Errorf("is longer than %d bytes", MaxLineBytes)

// lines reads a log line by line, and unpacks gzip.
type lines struct {
	in     *bufio.Reader
	number int
	most   int // maximum number of lines; 0 means any
}

func openLines(r io.Reader, l Limits) (*lines, error) {
	in := bufio.NewReaderSize(l.reader(r), MaxLineBytes)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("is packed by gzip, and damaged: %w", err)
		}
		in = bufio.NewReaderSize(l.reader(unpacked), MaxLineBytes)
	}
	all := &lines{in: in, most: l.Lines}
	if mark, _ := in.Peek(3); string(mark) == "\ufeff" {
		_, _ = in.Discard(len(mark)) // already peeked
	}
	head, err := in.Peek(sampleBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, all.unreadable(err)
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return nil, errors.New("is a binary file, not a log")
	}
	return all, nil
}

// sampleBytes is the size of the sample from which a log's format is detected.
const sampleBytes = 64 << 10

// sample returns the first line that is not blank, or its available part, without consuming it.
func (l *lines) sample() []byte {
	head, _ := l.in.Peek(sampleBytes) // an error will recur with the line
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte{'\n'})
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line
		}
		head = rest
	}
	return nil
}

// next returns the next line without its end, valid until the next call. It returns errLong for a line that is too
// long, and io.EOF at the end.
func (l *lines) next() ([]byte, error) {
	if l.most > 0 && l.number >= l.most {
		if _, err := l.in.Peek(1); err == nil {
			return nil, &TooLong{Lines: l.most}
		}
	}
	line, err := l.in.ReadSlice('\n')
	switch {
	case err == nil:
		line = line[:len(line)-1]
	case errors.Is(err, bufio.ErrBufferFull):
		l.number++
		for errors.Is(err, bufio.ErrBufferFull) {
			_, err = l.in.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, l.unreadable(err)
		}
		return nil, errLong
	case !errors.Is(err, io.EOF):
		return nil, l.unreadable(err)
	case len(line) == 0:
		return nil, io.EOF
	}
	l.number++
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// pass reads up to and including the first line that is not blank.
func (l *lines) pass() error {
	for {
		if line, err := l.next(); err != nil || !blank(line) {
			return err
		}
	}
}

func (l *lines) unreadable(err error) error {
	if long := (*TooLong)(nil); errors.As(err, &long) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the packed file is cut short")
	}
	if l.number == 0 {
		return fmt.Errorf("cannot be read: %w", err)
	}
	return fmt.Errorf("cannot be read after line %d: %w", l.number, err)
}
