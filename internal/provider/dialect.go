package provider

import (
	"iter"
	"net/http"
	"time"
)

// action is what a request asks for.
type action int

const (
	nothing action = iota
	chat
	listModels
	showModel
	anything // any request to a plain API
)

// models are the ids of the models, for all providers.
var models = []string{"sim-large", "sim-small"}

// dialect is how a provider speaks.
type dialect interface {
	// route returns what a request asks for. If the path exists, but not with this method, allow names the methods.
	route(method, path string) (do action, allow string)
	// key returns the API key of a request.
	key(h http.Header) string
	// check returns why a call is invalid, or nil.
	check(h http.Header, r *chatRequest) *problem
	// limits sets the headers about the budgets.
	limits(h http.Header, r readings)
	// later sets the headers about the time to come back.
	later(h http.Header, wait time.Duration)
	// number sets the header with the id of an answer.
	number(h http.Header, id string)
	// refusal returns the body of an error.
	refusal(p problem, id string) any
	models(ids []string) any
	model(id string) any
	// reply returns the body of an answer.
	reply(c *chatCall) any
	// events returns the events of a streamed answer.
	events(c *chatCall) iter.Seq[event]
}

// event is a server-sent event. Its data is a string or becomes JSON.
type event struct {
	name   string // may be empty
	data   any
	tokens int64 // that it delivers
}

// problem is why a request is refused.
type problem struct {
	status int
	kind   kind
	about  string // a field, a limit or a path
}

type kind int

const (
	failed kind = iota
	badJSON
	badValue // about is the field and what it must be
	missingField
	tooLarge
	missingKey
	wrongKey
	unknownPath
	unknownModel
	wrongMethod
	requestsUsedUp
	tokensUsedUp
)

// text returns the message of a problem.
func (p problem) text() string {
	switch p.kind {
	case badJSON:
		return "The body of the request is not valid JSON: " + p.about
	case badValue:
		return "Invalid value: " + p.about
	case missingField:
		return "Missing required parameter: '" + p.about + "'."
	case tooLarge:
		return "The body of the request is too large: " + p.about
	case missingKey:
		return "No API key was provided."
	case wrongKey:
		return "Incorrect API key provided: " + p.about
	case unknownPath:
		return "Invalid URL (" + p.about + ")"
	case unknownModel:
		return "The model '" + p.about + "' does not exist."
	case wrongMethod:
		return "Method not allowed: " + p.about
	case requestsUsedUp:
		return "Rate limit reached: the limit is " + p.about + " requests."
	case tokensUsedUp:
		return "Rate limit reached: the limit is " + p.about + " tokens."
	}
	return http.StatusText(p.status) + ": " + p.about
}

// ceil returns a duration as whole seconds, at least 1.
func ceil(d time.Duration) int64 { return max(1, int64((d+time.Second-1)/time.Second)) }
