package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/client"
)

// refreshed are the flags of a command that can show its answer again and again.
type refreshed struct {
	output
	Watch    bool          `help:"Refresh until Ctrl-C." short:"w"`
	Interval time.Duration `help:"How often --watch refreshes." default:"1s"`
}

// showRefreshed shows what read returns, once or until Ctrl-C; text is what people see of it.
func showRefreshed[T any](
	r *run, f *refreshed, read func(context.Context) (T, error), text func(v T, now time.Time) string,
) error {
	if f.Interval < 50*time.Millisecond {
		return usage(fmt.Errorf("--interval %v: must be at least 50ms", f.Interval))
	}
	if f.Watch {
		return watch(r, f, read, text)
	}
	v, err := read(r.ctx)
	if err != nil {
		return err
	}
	if f.json() {
		return printJSON(r.Out, v)
	}
	_, err = fmt.Fprint(r.Out, text(v, time.Now()))
	return err
}

// watch redraws on a terminal and prints one after another elsewhere. A server
// that is gone for a while is said to be, and asked again.
func watch[T any](
	r *run, f *refreshed, read func(context.Context) (T, error), text func(v T, now time.Time) string,
) error {
	tick := time.NewTicker(f.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		v, err := read(r.ctx)
		var gone *client.Unreachable
		switch {
		case errors.Is(err, context.Canceled):
			return nil // Ctrl-C is how a watch ends
		case err != nil && (first || !errors.As(err, &gone)):
			return err
		}
		switch now := time.Now(); {
		case err == nil && f.json():
			err = printLine(r.Out, v)
		case err == nil:
			err = r.draw(now, text(v, now))
		case f.json():
			r.say("penstock: %v", err)
			err = nil
		default:
			err = r.draw(now, plain(err.Error())+"\n")
		}
		if err != nil {
			return err
		}
		select {
		case <-r.ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// draw shows a text in place of the one before, if that was on a terminal.
func (r *run) draw(now time.Time, text string) error {
	text = fmt.Sprintf("%s  %s\n\n%s", now.Format("15:04:05"), r.shown(), text)
	if width, height, screen := screenSize(r.Out); screen { // it may have been changed
		// Home, each line cleared to its end, and everything below.
		text = shortened(text, width, height)
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	} else {
		text += "\n"
	}
	_, err := fmt.Fprint(r.Out, text)
	return err
}

// shortened cuts a text to a terminal, on which lines that wrapped, or too many, would leave the picture before in
// pieces.
func shortened(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(2, height-1); len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1], fmt.Sprintf("... %d more lines; a higher terminal shows them", left))
	}
	for i := range lines {
		lines[i] = cut(lines[i], width)
	}
	return strings.Join(lines, "\n") + "\n"
}
