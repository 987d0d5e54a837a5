package usage

import "github.com/penstock/penstock/internal/pointer"

// events reads a stream of server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream) and scans the data of each.
type events struct {
	scanner *pointer.Scanner
	ended   func() // called at the end of each event with data

	column int // characters of the line's name that were read; -1 in data, -2 in the rest of other lines
	space  bool
	cr     bool // the last character was a carriage return
	data   bool // the event has data
}

const (
	inData = -1
	inRest = -2
)

// dataField is the name of the only field that counts.
const dataField = "data"

func (e *events) write(text []byte) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\n' && e.cr {
			e.cr = false
			continue
		}
		e.cr = c == '\r'
		switch {
		case c == '\n' || c == '\r':
			e.line()
		case e.column == inRest:
		case e.column == inData:
			if e.space && c == ' ' {
				e.space = false
				continue
			}
			e.space = false
			e.scanner.Write(text[i : i+1])
		case e.column < len(dataField) && c == dataField[e.column]:
			e.column++
		case e.column == len(dataField) && c == ':':
			e.begin()
		default:
			e.column = inRest
		}
	}
}

// begin begins the data of a line.
func (e *events) begin() {
	if e.data {
		e.scanner.Write([]byte{'\n'})
	}
	e.column, e.space, e.data = inData, true, true
}

// line ends a line. An empty line ends the event.
func (e *events) line() {
	if e.column == 0 {
		e.end()
	}
	e.column = 0
}

// end ends an event.
func (e *events) end() {
	if e.data {
		e.data = false
		e.ended()
		e.scanner.Reset()
	}
}
