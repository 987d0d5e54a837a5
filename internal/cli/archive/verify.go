package archive

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/names"
	"github.com/penstock/penstock/queue/ruleset"
)

// maxLine is more than the length of any line: a payload of 1 MiB in base64, and headers.
const maxLine = 4 << 20

// File is a verified file.
type File struct {
	Header  Header
	Trailer Trailer
	// Signature is nil if the file is not signed. It is verified only if Verify had a key.
	Signature *Signature
	// Mark identifies the import of this file.
	Mark  string
	from  io.ReadSeeker
	specs queue.SpecParser
}

// Damaged means that a file is not what an export wrote.
type Damaged struct {
	Line int64
	Why  string
}

func (e *Damaged) Error() string {
	return fmt.Sprintf("line %d: %s. Nothing was changed", e.Line, e.Why)
}

func damaged(line int64, why string, args ...any) error {
	return &Damaged{line, fmt.Sprintf(why, args...)}
}

// Verify checks the checksum of a file, its signature if key is not nil, and that everything in it can be imported. The
// file must not change before the import, which reads it again.
func Verify(ctx context.Context, from io.ReadSeeker, key ed25519.PublicKey) (*File, error) {
	f := &File{from: from}
	if err := f.checkSum(ctx, key); err != nil {
		return nil, err
	}
	c := &checker{specs: &f.specs, rules: map[string]bool{}}
	if err := f.each(ctx, c.line); err != nil {
		return nil, err
	}
	if c.open != "" || c.done.Rules != f.Trailer.Rules || c.done.Queues != f.Trailer.Queues ||
		c.done.Jobs != f.Trailer.Jobs {
		return nil, damaged(f.Trailer.Lines+1, "the totals in the trailer are wrong")
	}
	return f, nil
}

// signatureBegins is the beginning of the line of a signature.
var signatureBegins = []byte(`{"signature":`)

// checkSum finds the trailer, compares the checksum, and verifies the signature if there is a key. It checks the header
// first, because a newer format may differ in everything else.
func (f *File) checkSum(ctx context.Context, key ed25519.PublicKey) error {
	sum := sha256.New()
	lines, last := int64(0), []byte(nil)
	err := f.lines(ctx, func(n int64, text []byte) error {
		if f.Signature != nil {
			return damaged(n, "the file continues after its signature")
		}
		if n > 1 && bytes.HasPrefix(text, signatureBegins) {
			l, err := decode(text)
			if err != nil {
				return damaged(n, "invalid signature: %v", err)
			}
			f.Signature = l.Signature
			if as, err := l.encode(); err != nil || !bytes.Equal(as, text) {
				return damaged(n, "penstock did not write this signature")
			}
			return nil
		}
		if n == 1 {
			if err := f.header(text); err != nil {
				return err
			}
		} else {
			_, _ = sum.Write(last)
		}
		lines, last = n, append(last[:0], text...)
		return nil
	})
	if err != nil {
		return err
	}
	if lines == 0 {
		return damaged(1, "the file is empty")
	}
	l, err := decode(last)
	if err != nil || l.Trailer == nil {
		return damaged(lines, "the file ends here without a trailer: it is incomplete")
	}
	f.Trailer = *l.Trailer
	digest := hex.EncodeToString(sum.Sum(nil))
	if f.Trailer.Lines != lines-1 || f.Trailer.SHA256 != digest {
		return damaged(lines, "wrong checksum: the file was altered, or parts of it are missing")
	}
	if key != nil {
		_, _ = sum.Write(last)
		if err := f.checkSignature(sum.Sum(nil), key); err != nil {
			return err
		}
	}
	f.Mark = digest[:32]
	return nil
}

func (f *File) header(text []byte) error {
	var v struct {
		Header *struct {
			Format int `json:"format"`
		} `json:"penstock_export"`
	}
	if err := laxJSON(text, &v); err != nil || v.Header == nil {
		return damaged(1, "not a file written by penstock export")
	}
	if v.Header.Format < 1 || v.Header.Format > Format {
		return damaged(1, "the file has format %d, but this penstock reads formats up to %d: use a newer penstock",
			v.Header.Format, Format)
	}
	l, err := decode(text)
	if err != nil {
		return damaged(1, "invalid header: %v", err)
	}
	f.Header = *l.Header
	return nil
}

// lines reads the file line by line from its beginning. A last line without an end is an error.
func (f *File) lines(ctx context.Context, do func(n int64, text []byte) error) error {
	if _, err := f.from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return eachLine(ctx, f.from, do)
}

func eachLine(ctx context.Context, from io.Reader, do func(n int64, text []byte) error) error {
	r := bufio.NewReaderSize(from, 1<<16)
	var long []byte
	for n := int64(1); ; {
		text, err := r.ReadSlice('\n')
		if len(long)+len(text) > maxLine {
			return damaged(n, "longer than any line that penstock writes")
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, text...)
			continue
		case errors.Is(err, io.EOF) && len(long)+len(text) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return damaged(n, "the file ends in the middle of it")
		case err != nil:
			return err
		}
		if len(long) > 0 {
			long = append(long, text...)
			text = long
		}
		if err := do(n, text); err != nil {
			return err
		}
		long = long[:0]
		if n++; n%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// each decodes all lines between the header and the trailer.
func (f *File) each(ctx context.Context, do func(n int64, l *line) error) error {
	return f.decoded(ctx, func([]byte) bool { return true }, do)
}

// heads decodes all lines except jobs.
func (f *File) heads(ctx context.Context, do func(n int64, l *line) error) error {
	return f.decoded(ctx, isHead, do)
}

func isHead(text []byte) bool { return !bytes.HasPrefix(text, jobBegins) }

func (f *File) decoded(ctx context.Context, which func(text []byte) bool, do func(n int64, l *line) error) error {
	return f.raw(ctx, which, func(n int64, text []byte) error {
		l, err := decode(text)
		if err != nil {
			return damaged(n, "%v", err)
		}
		return do(n, &l)
	})
}

// raw passes on the lines between the header and the trailer that which selects.
func (f *File) raw(ctx context.Context, which func(text []byte) bool, do func(n int64, text []byte) error) error {
	return f.lines(ctx, func(n int64, text []byte) error {
		if n == 1 || n > f.Trailer.Lines || !which(text) {
			return nil
		}
		return do(n, text)
	})
}

// checker checks the order of the lines, and that each can be imported.
type checker struct {
	specs *queue.SpecParser
	rules map[string]bool
	open  string // the present queue
	last  string
	jobs  Jobs // of the present queue
	done  Exported
}

func (c *checker) line(n int64, l *line) error {
	switch {
	case l.Rule != nil && c.open == "":
		r, err := ruleOf(l.Rule)
		if err != nil {
			return damaged(n, "rule %s: %v", clip.Quote(r.Name, 80), err)
		}
		if c.rules[r.Name] {
			return damaged(n, "rule %s appears twice", r.Name)
		}
		c.rules[r.Name] = true
		c.done.Rules++
	case l.Queue != nil && c.open == "":
		q, err := l.Queue.queue(c.specs)
		if err != nil {
			return damaged(n, "queue %s: %v", q.Spec.Name, err)
		}
		if q.Spec.Name <= c.last {
			return damaged(n, "queue %s must come before %s", q.Spec.Name, c.last)
		}
		for _, name := range ruleset.Names(q.Spec.Name, nil, q.Spec.Rules) {
			if !c.rules[name] {
				return damaged(n, "queue %s uses the rule %s, which must come before it", q.Spec.Name, name)
			}
		}
		c.open, c.last = q.Spec.Name, q.Spec.Name
	case l.Job != nil && c.open != "":
		m, err := l.Job.job(c.open)
		if err != nil {
			return damaged(n, "job %s: %v", clip.Quote(l.Job.ID, 80), err)
		}
		*c.jobs.of(m.State)++
	case l.End != nil && c.open == l.End.Queue && c.jobs == l.End.Jobs && validEnd(l.End):
		c.done.Queues++
		c.done.Jobs.add(c.jobs)
		c.open, c.jobs = "", Jobs{}
	default:
		return damaged(n, "unexpected line")
	}
	return nil
}

func validEnd(l *endLine) bool {
	if l.Held < 0 || len(l.Errors) > 10 {
		return false
	}
	for _, e := range l.Errors {
		if us := e.At.UnixMicro(); us < 0 || us >= 1<<53 || len(e.Reason) > queue.MaxReasonBytes ||
			names.ValidateID(e.ID) != nil {
			return false
		}
	}
	return true
}
