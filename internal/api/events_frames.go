package api

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/penstock/penstock/internal/survey"
	"github.com/penstock/penstock/internal/wire"
)

// flushEvents is how much is put together before it is written.
const flushEvents = 32 << 10

// streamEvents are the events of a stream beside what happens to queues, which survey.Kinds has.
var streamEvents = []struct{ kind, means string }{
	{"reset", "How all queues are that the stream is about: it begins so, unless it goes on behind an id."},
	{"info", "Of the queues that the stream names, those of which figures are others. It has no id."},
	{"end", "A problem, which is why there is nothing more."},
}

// eventKinds are all events of a stream, and what they mean.
func eventKinds() (names, means []string) {
	kinds, of := survey.Kinds()
	for n, kind := range kinds {
		names, means = append(names, string(kind)), append(means, of[n])
	}
	for _, e := range streamEvents {
		names, means = append(names, e.kind), append(means, e.means)
	}
	return names, means
}

func (s *eventStream) about(name string) bool {
	return (s.names == nil || slices.Contains(s.names, name)) && (s.seen == nil || s.seen(name))
}

// tell writes what happened.
func (s *eventStream) tell(events []survey.Event) {
	for n := range events {
		e := &events[n]
		if !s.about(e.Queue) {
			continue
		}
		event := wire.Event{Kind: string(e.Kind), Queue: e.Queue, At: e.At.UTC()}
		if e.Kind != survey.Deleted {
			row := shownRowTo(s.who, e.Row)
			event.Row = &row
		}
		if s.names != nil {
			s.sent[e.Queue] = e.Row
		}
		s.frame(event.Kind, e.ID, event)
		s.spill()
	}
}

// info writes how the named queues are of which the client knows something else.
func (s *eventStream) info(now *survey.Snapshot) {
	rows := wire.Rows{AsOf: now.At.UTC()}
	for _, name := range s.names {
		row := now.Row(name)
		if row == nil || s.sent[name] == row || !s.about(name) {
			continue
		}
		s.sent[name] = row
		rows.Queues = append(rows.Queues, shownRowTo(s.who, row))
	}
	if len(rows.Queues) > 0 {
		s.frame("info", 0, rows)
	}
}

// reset writes how all queues are. However many there are, it keeps a few of them in memory: a line each.
func (s *eventStream) reset(now *survey.Snapshot, last int64) {
	s.head("reset", last)
	s.out = append(s.out, `data: {"as_of":"`...)
	s.out = now.At.UTC().AppendFormat(s.out, time.RFC3339Nano)
	s.out = append(s.out, `","queues":[`...)
	clear(s.sent)
	first := true
	write := func(row *survey.Row) {
		if row == nil || !s.about(row.Name) || s.err != nil {
			return
		}
		if !first {
			s.out = append(s.out, ',')
		}
		first = false
		s.out = append(s.out, "\ndata: "...)
		s.json(shownRowTo(s.who, row))
		if s.names != nil {
			s.sent[row.Name] = row
		}
		s.spill()
	}
	if s.names == nil {
		for _, row := range now.Rows() {
			write(row)
		}
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) {
		write(now.Row(name))
	}
	s.out = append(s.out, "\ndata: ]}\n\n"...)
}

// end writes why there is nothing more.
func (s *eventStream) end(p *Problem) {
	s.head("end", 0)
	s.out = append(s.out, "data: "...)
	s.out = append(p.appendBody(s.out, ""), "\n\n"...)
	s.flush()
}

// frame adds an event, with an id if it has a number.
func (s *eventStream) frame(kind string, id int64, data any) {
	s.head(kind, id)
	s.out = append(s.out, "data: "...)
	s.json(data)
	s.out = append(s.out, "\n\n"...)
}

func (s *eventStream) head(kind string, id int64) {
	if id > 0 || kind == "reset" {
		s.out = append(s.out, "id: "+place{s.survey.Instance(), id}.String()+"\n"...)
	}
	s.out = append(s.out, "event: "+kind+"\n"...)
}

// json adds a value, which is one line.
func (s *eventStream) json(v any) {
	text, err := json.Marshal(v)
	if err != nil {
		s.err = err
		return
	}
	s.out = append(s.out, text...)
}

// spill writes what there is if it is much.
func (s *eventStream) spill() {
	if len(s.out) >= flushEvents {
		s.flush()
	}
}
