package command

import (
	"io"
	"os"
	"runtime"
	"strings"

	"golang.org/x/term"
)

// Colors is the --no-color flag of commands that can use colors.
type Colors struct {
	NoColor bool `help:"Use no colors. The variable NO_COLOR does the same."`
}

// Screen is what a terminal can show.
type Screen struct {
	Width, Height int
	Unicode       bool // also braille characters
	Color         bool
}

// Screen returns what the terminal of standard output can show. ok is false if standard output is not a terminal.
func (r *Run) Screen(c Colors) (s Screen, ok bool) {
	if s.Width, s.Height, ok = ScreenSize(r.Out); !ok {
		return s, false
	}
	plain := os.Getenv("TERM") == "dumb"
	s.Unicode = !plain && showsUnicode()
	s.Color = !plain && !c.NoColor && os.Getenv("NO_COLOR") == ""
	return s, true
}

// showsUnicode reports whether the locale is UTF-8. The fonts of the Linux console have no braille characters.
func showsUnicode() bool {
	if os.Getenv("TERM") == "linux" {
		return false
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := strings.ToLower(os.Getenv(name)); locale != "" {
			return strings.Contains(locale, "utf-8") || strings.Contains(locale, "utf8")
		}
	}
	return runtime.GOOS == "windows" && os.Getenv("WT_SESSION") != ""
}

// Styled returns a text in a style, given by the parameters of an SGR sequence such as "31". It is the text itself if
// the terminal shows no colors, or without a style.
func (s *Screen) Styled(text, style string) string {
	if !s.Color || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// Width returns the width of a terminal. ok is false if w is not a terminal.
func Width(w io.Writer) (width int, ok bool) {
	width, _, ok = ScreenSize(w)
	return width, ok
}

// ScreenSize returns the size of a terminal. ok is false if w is not a terminal.
func ScreenSize(w io.Writer) (width, height int, ok bool) {
	f, isFile := w.(*os.File)
	if !isFile || !term.IsTerminal(int(f.Fd())) {
		return 0, 0, false
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	if err != nil || height < 1 {
		height = 24
	}
	return width, height, true
}
