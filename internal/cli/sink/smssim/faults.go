package smssim

import (
	"net/http"
	"strconv"
	"unicode/utf8"

	"github.com/penstock/penstock/deliver/smstarget"
)

// Fault is what goes wrong with a request: an error code of the provider, an HTTP status of a proxy before it, or a
// constant below.
type Fault int

// Faults other than the error codes of the provider, which have five digits.
const (
	None        Fault = iota
	LoseAnswer        // the text is taken, but the connection closes
	LoseRequest       // the connection closes before the text is taken

	BadGateway  Fault = http.StatusBadGateway
	Unavailable Fault = http.StatusServiceUnavailable
)

func (f Fault) String() string {
	switch f {
	case None:
		return ""
	case LoseAnswer:
		return ": taken, the answer is lost"
	case LoseRequest:
		return ": lost"
	}
	return ": " + strconv.Itoa(int(f))
}

// Numbers are the numbers whose texts fail. The first are test numbers of the provider, the others are only of this
// simulator.
var Numbers = map[string]Fault{
	"+15005550001": 21211, // no phone number
	"+15005550002": 21612, // cannot be reached
	"+15005550003": 21408, // no permission for the country
	"+15005550004": 21610, // has unsubscribed
	"+15005550009": 21614, // cannot receive texts

	"+15005550020": LoseAnswer,
	"+15005550021": LoseRequest,
	"+15005550022": BadGateway,
	"+15005550023": Unavailable,
	"+15005550024": 20500, // an error inside the provider
	"+15005550025": 20429, // too many requests
	"+15005550026": 30001, // queue overflow
}

// Senders are the senders that are refused, like test numbers of the provider.
var Senders = map[string]Fault{
	"+15005550001": 21212, // no phone number
	"+15005550007": 21606, // not the account's
	"+15005550008": 21611, // its queue is full
}

var codes = map[Fault]struct {
	status int
	text   string
}{
	20429: {http.StatusTooManyRequests, "Too Many Requests"},
	20500: {http.StatusInternalServerError, "An internal server error has occurred"},
	21211: {http.StatusBadRequest, "The 'To' number is not a valid phone number."},
	21212: {http.StatusBadRequest, "The 'From' number is not a valid phone number, shortcode, or alphanumeric sender ID."},
	21408: {
		http.StatusBadRequest, "Permission to send an SMS has not been enabled for the region indicated by the 'To' number.",
	},
	21602: {http.StatusBadRequest, "Message body is required."},
	21603: {http.StatusBadRequest, "A 'From' phone number is required."},
	21604: {http.StatusBadRequest, "A 'To' phone number is required."},
	21606: {
		http.StatusBadRequest,
		"The 'From' phone number provided is not a valid message-capable phone number for this account.",
	},
	21610: {http.StatusBadRequest, "Attempt to send to unsubscribed recipient"},
	21611: {http.StatusTooManyRequests, "This 'From' number has exceeded the maximum number of queued messages"},
	21612: {
		http.StatusBadRequest, "The 'To' phone number is not currently reachable using the 'From' phone number via SMS.",
	},
	21614: {http.StatusBadRequest, "'To' number is not a valid mobile number"},
	21617: {http.StatusBadRequest, "The concatenated message body exceeds the 1600 character limit"},
	30001: {http.StatusBadRequest, "Queue overflow"},
}

// check returns the error of a request, or 0.
func (s *Simulator) check(t *Text, fault Fault) (code, status int, text string) {
	f := fault
	switch {
	case codes[f].status != 0:
	case t.To == "":
		f = 21604
	case t.Body == "":
		f = 21602
	case t.From == "" && t.Service == "":
		f = 21603
	case utf8.RuneCountInString(t.Body) > smstarget.MaxCharacters:
		f = 21617
	case Senders[t.From] != None:
		f = Senders[t.From]
	case !s.pace(t.Segments):
		f = 20429
	}
	c := codes[f]
	if c.status == 0 {
		return 0, 0, ""
	}
	return int(f), c.status, c.text
}
