package archive

import (
	"bufio"
	"context"
	"errors"
	"io"
)

// Spool copies a file that cannot be read twice. It fails with a *Damaged at the first line that is not of an export,
// so that an endless input of another kind does not fill the disk.
func Spool(ctx context.Context, to io.Writer, from io.Reader) error {
	w := bufio.NewWriterSize(to, 1<<20)
	err := eachLine(ctx, from, func(n int64, text []byte) error {
		if n == 1 {
			if err := new(File).header(text); err != nil {
				return err
			}
		}
		_, err := w.Write(text)
		return err
	})
	return errors.Join(err, w.Flush())
}
