package queuecmd

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/client"
)

const (
	// sizeInterval is how often the size of the terminal is checked. Not every system reports its changes.
	sizeInterval = 200 * time.Millisecond
	// keyPatience is how long the rest of a key's sequence may take. A lone escape character is the escape key.
	keyPatience = 50 * time.Millisecond
)

// topScreen is top on a terminal: the list of queues, or one of them.
type topScreen struct {
	top     *TopCmd
	r       *command.Run
	look    func(context.Context) seen
	inspect func(ctx context.Context, name string) queueView

	now      *picture
	selected string // the queue at the cursor
	cursor   int    // its index, which stays when the queue is gone
	from     int    // the first queue shown

	open   string // the queue that is open; empty for the list
	view   queueView
	scroll int // the first line shown of the view
	body   int // lines below the head that fit

	reading sync.WaitGroup
	found   chan func() // applies what was read
	busy    bool        // something is being read

	drawn string
	size  command.Screen
}

func newTopScreen(c *TopCmd, r *command.Run, api *client.Client, now *picture) *topScreen {
	return &topScreen{
		top: c, r: r, now: now, found: make(chan func(), 1),
		look: func(ctx context.Context) seen { return c.look(ctx, api) },
		inspect: func(ctx context.Context, name string) queueView {
			ctx, cancel := context.WithTimeout(ctx, max(lookTimeout, c.Interval))
			defer cancel()
			return inspect(ctx, api, name)
		},
	}
}

// run draws until the user quits or the context ends. It leaves the terminal as it was, also after a panic.
func (t *topScreen) run(ctx context.Context) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer t.reading.Wait()
	defer cancel()
	typed, leave, err := enter(ctx, t.r)
	if err != nil {
		return err
	}
	defer leave()
	tick, size := time.NewTicker(t.top.Interval), time.NewTicker(sizeInterval)
	defer tick.Stop()
	defer size.Stop()
	var keys keyReader
	var late <-chan time.Time
	for {
		if err := t.draw(); err != nil {
			return err
		}
		var pressed []key
		select {
		case <-ctx.Done():
			return nil
		case apply := <-t.found:
			t.busy = false
			apply()
			t.readView(ctx)
		case <-tick.C:
			t.read(ctx, true)
		case <-size.C: // draw looks at the size
		case text := <-typed:
			pressed, late = keys.read(text), nil
			if keys.rest != "" {
				late = time.After(keyPatience)
			}
		case <-late:
			pressed, late = keys.late(), nil
		}
		for _, k := range pressed {
			if t.press(k) {
				return nil
			}
			t.readView(ctx)
		}
	}
}

// readView reads the open queue, unless it was read.
func (t *topScreen) readView(ctx context.Context) {
	if t.open != "" && t.view.name != t.open {
		t.read(ctx, false)
	}
}

// read begins to read the open queue, and the list if wanted. It does nothing while something is being read.
func (t *topScreen) read(ctx context.Context, list bool) {
	if t.busy {
		return
	}
	t.busy = true
	open := t.open
	t.reading.Go(func() {
		defer func() {
			if p := recover(); p != nil { // panic where the terminal is restored
				stack := debug.Stack()
				t.found <- func() { panic(fmt.Sprintf("%v\n%s", p, stack)) }
			}
		}()
		var v seen
		var view queueView
		if list {
			v = t.look(ctx)
		}
		if open != "" {
			view = t.inspect(ctx, open)
		}
		t.found <- func() {
			if list && ctx.Err() == nil {
				v.show(t.now)
			}
			if open == t.open {
				t.view = view
			}
		}
	})
}

// press does what a key asks for, and reports whether it quits.
func (t *topScreen) press(k key) (quit bool) {
	page := max(1, t.body-1)
	moves := map[key]int{
		keyUp: -1, keyDown: 1, keyPageUp: -page, keyPageDn: page, keyHome: -math.MaxInt32, keyEnd: math.MaxInt32,
	}
	switch {
	case k == keyCtrlC:
		return true
	case t.open != "":
		switch k {
		case keyEscape, "q", "Q":
			t.open, t.view, t.scroll = "", queueView{}, 0
		default:
			t.scroll = max(0, t.scroll+moves[k])
		}
	case k == "q", k == "Q":
		return true
	case k == keyEnter && len(t.now.Queues) > 0:
		t.open, t.view, t.scroll = t.now.Queues[t.at()].Name, queueView{}, 0
	case k == "s":
		t.now.turn(1)
	case k == "S":
		t.now.turn(-1)
	case moves[k] != 0 && len(t.now.Queues) > 0:
		t.cursor = min(max(0, t.at()+moves[k]), len(t.now.Queues)-1)
		t.selected = t.now.Queues[t.cursor].Name
	}
	return false
}

// at returns the index of the queue at the cursor. The cursor follows its queue.
func (t *topScreen) at() int {
	at := slices.IndexFunc(t.now.Queues, func(f flow) bool { return f.Name == t.selected })
	if at < 0 {
		at = max(0, min(t.cursor, len(t.now.Queues)-1))
	}
	return at
}

// draw draws over what was drawn before, if that has changed.
func (t *topScreen) draw() error {
	s, _ := t.r.Screen(t.top.Colors) // its size may have changed
	text := t.text(&s)
	if text == t.drawn && s == t.size {
		return nil
	}
	t.drawn, t.size = text, s
	_, err := io.WriteString(t.r.Out, overdraw(text))
	return err
}

// text returns what to draw: the head, the list or the view, and the keys.
func (t *topScreen) text(s *command.Screen) string {
	lines := t.now.head(s)
	t.body = max(1, s.Height-len(lines)-1)
	if t.open == "" {
		lines = append(lines, t.list(s)...)
	} else {
		lines = append(lines, t.viewed(s)...)
	}
	return strings.Join(lines[:min(len(lines), s.Height)], "\n")
}

// list returns the queues that fit, around the cursor, and the keys.
func (t *topScreen) list(s *command.Screen) []string {
	all := len(t.now.Queues)
	fit := max(1, t.body-1)
	if t.top.Rows > 0 {
		fit = min(fit, t.top.Rows)
	}
	at := t.at()
	t.from = max(0, min(max(t.from, at-fit+1), at, all-fit))
	shown := t.now.Queues[t.from:min(all, t.from+fit)]
	keys := "q quit"
	if all > 0 {
		keys = fmt.Sprintf(
			"%d-%d of %d  q quit  Enter open  j k move  s order: %s", t.from+1, t.from+len(shown), all, t.now.sort,
		)
	}
	return append(t.now.rows(s, shown, at-t.from), t.footer(s, keys))
}

// viewed returns the part of the view that fits, and the keys.
func (t *topScreen) viewed(s *command.Screen) []string {
	lines := []string{"reading " + show.Text(t.open)}
	if t.view.name == t.open {
		lines = t.view.lines(s, t.now.At)
	}
	t.scroll = max(0, min(t.scroll, len(lines)-t.body))
	shown := lines[t.scroll:min(len(lines), t.scroll+t.body)]
	keys := "Esc back"
	if len(shown) < len(lines) {
		keys = fmt.Sprintf("%d-%d of %d lines  Esc back  j k move", t.scroll+1, t.scroll+len(shown), len(lines))
	}
	return append(slices.Clone(shown), t.footer(s, keys))
}

func (t *topScreen) footer(s *command.Screen, keys string) string {
	return s.Styled(show.Cut(keys, s.Width), styleFaint)
}

// overdraw returns a text that draws over the screen from its upper left corner.
func overdraw(text string) string {
	// A line end on the last line would scroll.
	return "\x1b[H" + strings.ReplaceAll(text, "\n", "\x1b[K\r\n") + "\x1b[K\x1b[J"
}

// enter switches the terminal to its alternate screen, without a cursor and without wrapping. If standard input is a
// terminal, typed has what the user types, Ctrl-C included.
func enter(ctx context.Context, r *command.Run) (typed <-chan string, leave func(), err error) {
	restore := func() {}
	if in, ok := r.In.(*os.File); ok && term.IsTerminal(int(in.Fd())) {
		before, err := term.MakeRaw(int(in.Fd()))
		if err != nil {
			return nil, nil, fmt.Errorf("prepare the terminal: %w", err)
		}
		restore = func() { _ = term.Restore(int(in.Fd()), before) }
		typed = typing(ctx, in)
	}
	_, _ = io.WriteString(r.Out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	return typed, func() {
		_, _ = io.WriteString(r.Out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
		restore()
	}, nil
}

// typing reads what the user types. A read of a terminal cannot be canceled, so it ends with the next key or with the
// process.
func typing(ctx context.Context, in io.Reader) <-chan string {
	typed := make(chan string)
	go func() {
		buf := make([]byte, 256)
		for {
			n, err := in.Read(buf)
			if n == 0 || err != nil {
				return
			}
			select {
			case typed <- string(buf[:n]):
			case <-ctx.Done():
				return
			}
		}
	}()
	return typed
}
