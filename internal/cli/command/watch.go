package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
)

// Watched is the --watch flag of commands that can refresh their output.
type Watched struct {
	Output
	Watch    bool          `help:"Refresh until Ctrl-C." short:"w"`
	Interval time.Duration `help:"Time between two refreshes with --watch." default:"1s"`
}

// Watch prints what read returns, once or until Ctrl-C. text formats it for people.
func Watch[T any](
	r *Run, w *Watched, read func(context.Context) (T, error), text func(v T, now time.Time) string,
) error {
	if w.Interval < 50*time.Millisecond {
		return Usage(fmt.Errorf("--interval %v: must be at least 50ms", w.Interval))
	}
	if w.Watch {
		return watch(r, w, read, text)
	}
	v, err := read(r.Ctx)
	if err != nil {
		return err
	}
	return w.Print(r, v, func() string { return text(v, time.Now()) })
}

// watch redraws on a terminal; elsewhere it prints one output after another. While the server cannot be reached it says
// so and tries again.
func watch[T any](
	r *Run, w *Watched, read func(context.Context) (T, error), text func(v T, now time.Time) string,
) error {
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		v, err := read(r.Ctx)
		var gone *client.Unreachable
		switch {
		case errors.Is(err, context.Canceled):
			return nil // Ctrl-C
		case err != nil && (first || !errors.As(err, &gone)):
			return err
		}
		switch now := time.Now(); {
		case err == nil && w.JSON():
			err = PrintLine(r.Out, v)
		case err == nil:
			err = r.draw(now, text(v, now))
		case w.JSON():
			r.Say("penstock: %v", err)
			err = nil
		default:
			err = r.draw(now, show.Text(err.Error())+"\n")
		}
		if err != nil {
			return err
		}
		select {
		case <-r.Ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// draw replaces the text before it on a terminal. Elsewhere it prints the text.
func (r *Run) draw(now time.Time, text string) error {
	text = fmt.Sprintf("%s  %s\n\n%s", now.Format("15:04:05"), r.ServerURL(), text)
	if width, height, screen := ScreenSize(r.Out); screen { // its size may have changed
		// Home, each line cleared to its end, and everything below.
		text = fitted(text, width, height)
		text = "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\n") + "\x1b[J"
	} else {
		text += "\n"
	}
	_, err := fmt.Fprint(r.Out, text)
	return err
}

// fitted cuts a text to the size of a terminal. Lines that wrap or scroll would leave parts of the picture before.
func fitted(text string, width, height int) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if most := max(2, height-1); len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1], fmt.Sprintf("... %d more lines; enlarge the terminal to see them", left))
	}
	for i := range lines {
		lines[i] = show.Cut(lines[i], width)
	}
	return strings.Join(lines, "\n") + "\n"
}
