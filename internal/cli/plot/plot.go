// Package plot draws lines as text: with the dots of braille characters, eight to a character, or in plain ASCII.
//
// It promises that a row has as many characters as the canvas is wide, and that nothing is drawn outside the canvas. It
// knows no axes and no units.
package plot

import (
	"math"
	"strings"
)

// Point is a point of a line, in parts of the canvas: 0 to 1, from left to right and from the bottom to the top.
type Point struct{ X, Y float64 }

// Pen says what a line looks like.
type Pen struct {
	Mark   rune   // in ASCII
	Style  string // parameters of an SGR sequence, such as "32"; empty for the terminal's own color
	Dotted bool   // every other dot, in braille
}

// Canvas is a grid of characters.
type Canvas struct {
	width, height int
	braille       bool
	cells         []cell
}

// cell is a character of the canvas: a text if it is set, else dots.
type cell struct {
	text  rune
	dots  rune
	style string
}

// New returns an empty canvas of at least one character.
func New(width, height int, braille bool) *Canvas {
	c := &Canvas{width: max(1, width), height: max(1, height), braille: braille}
	c.cells = make([]cell, c.width*c.height)
	return c
}

// dots returns how many dots a character has, horizontally and vertically.
func (c *Canvas) dots() (x, y int) {
	if c.braille {
		return 2, 4
	}
	return 1, 1
}

// Line draws a line through points. It covers the lines drawn before.
func (c *Canvas) Line(points []Point, pen Pen) {
	step := 0
	for n := range points {
		x, y := c.dot(points[n])
		fromX, fromY := x, y
		if n > 0 {
			fromX, fromY = c.dot(points[n-1])
		}
		steps := max(abs(x-fromX), abs(y-fromY))
		for i := min(1, steps); i <= steps; i++ {
			part := 1.0
			if steps > 0 {
				part = float64(i) / float64(steps)
			}
			if step++; !pen.Dotted || !c.braille || step%2 == 1 {
				c.set(between(fromX, x, part), between(fromY, y, part), pen)
			}
		}
	}
}

// dot returns the dot at a point, counted from the upper left corner.
func (c *Canvas) dot(p Point) (x, y int) {
	across, down := c.dots()
	return scaled(p.X, c.width*across), c.height*down - 1 - scaled(p.Y, c.height*down)
}

// scaled returns the index of a part among n.
func scaled(part float64, n int) int {
	if !(part > 0) { // NaN, too
		return 0
	}
	return int(math.Round(min(part, 1) * float64(n-1)))
}

func between(from, to int, part float64) int { return from + int(math.Round(float64(to-from)*part)) }

func abs(n int) int { return max(n, -n) }

// bits are the dots of a braille character, by row and column.
var bits = [4][2]rune{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

func (c *Canvas) set(x, y int, pen Pen) {
	across, down := c.dots()
	at := &c.cells[y/down*c.width+x/across]
	at.style = pen.Style
	if c.braille {
		at.dots |= bits[y%down][x%across]
	} else {
		at.dots = pen.Mark
	}
}

// Cell returns the character at a point, counted from the upper left corner.
func (c *Canvas) Cell(p Point) (x, y int) {
	across, down := c.dots()
	x, y = c.dot(p)
	return x / across, y / down
}

// Write writes a character over the lines.
func (c *Canvas) Write(x, y int, text rune, style string) {
	if x >= 0 && x < c.width && y >= 0 && y < c.height {
		c.cells[y*c.width+x] = cell{text: text, style: style}
	}
}

// Under writes a character unless the place already has a character or a line.
func (c *Canvas) Under(x, y int, text rune, style string) {
	if x >= 0 && x < c.width && y >= 0 && y < c.height && c.cells[y*c.width+x] == (cell{}) {
		c.Write(x, y, text, style)
	}
}

// Rows returns the rows from the top to the bottom.
func (c *Canvas) Rows(color bool) []string {
	rows := make([]string, c.height)
	for y := range rows {
		var b strings.Builder
		style := ""
		for _, at := range c.cells[y*c.width:][:c.width] {
			if color && at.style != style {
				style = at.style
				b.WriteString("\x1b[0" + strings.TrimRight(";"+style, ";") + "m")
			}
			b.WriteRune(c.shown(at))
		}
		if style != "" {
			b.WriteString("\x1b[0m")
		}
		rows[y] = b.String()
	}
	return rows
}

func (c *Canvas) shown(at cell) rune {
	switch {
	case at.text != 0:
		return at.text
	case at.dots == 0:
		return ' '
	case c.braille:
		return 0x2800 + at.dots
	}
	return at.dots
}
