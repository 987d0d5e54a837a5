package command

import (
	"io"
	"os"

	"golang.org/x/term"
)

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
