package console

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"strings"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue/rules"
)

// formName is the field with the name of a new queue or rule.
const formName = "_name"

func readNewQueue(r *request) (any, error) { return r.console.newQueueForm(), nil }

// newQueueForm returns the empty form of a queue. It has a field for each row of the table of settings.
func (c *Console) newQueueForm() *settingsView {
	v := &settingsView{New: true, Preview: c.path("new", "queue")}
	v.fill(map[string]json.RawMessage{})
	return v
}

// newQueue creates a queue from a form. If the input is refused, the form keeps it.
func (c *Console) newQueue(w http.ResponseWriter, r *http.Request) {
	v := c.newQueueForm()
	c.create(w, r, creation{
		page: "new-queue", data: v, to: "queues",
		put: func(api *client.Client, name string, spec []byte) error {
			_, err := api.Put(r.Context(), name, spec, client.Absent)
			return err
		},
		refuse: func(f *fault) {
			v.Name = strings.TrimSpace(r.PostForm.Get(formName))
			v.keep(r.PostForm)
			v.refuse(f)
		},
	})
}

// newRuleView is the data of the form of a new rule.
type newRuleView struct {
	Name    string
	Fields  []field
	Refused *fault
}

func readNewRule(*request) (any, error) { return &newRuleView{Fields: ruleFields()}, nil }

// ruleFields returns the inputs of a rule. Each algorithm has the numbers of its table.
func ruleFields() []field {
	var algorithms []string
	var numbers []string
	users := map[string][]string{}
	for _, a := range rules.Algorithms() {
		algorithms = append(algorithms, string(a))
		for _, number := range rules.Numbers(a) {
			if users[number] == nil {
				numbers = append(numbers, number)
			}
			users[number] = append(users[number], strings.ReplaceAll(string(a), "_", " "))
		}
	}
	fields := []field{{Name: "algorithm", Label: "algorithm", Options: algorithms, Required: true}}
	hints := map[string]string{
		"rate": "10/s", "burst": "1", "limit": "100", "period": "1h", "resolution": "none", "ttl": "30s",
	}
	for _, number := range numbers {
		fields = append(fields, field{
			Name: number + kindOfNumber(number), Label: number, Hint: hints[number],
			Help: "For " + strings.Join(users[number], ", ") + ".",
		})
	}
	return append(fields,
		field{Name: "unit", Label: "unit", Hint: "tokens", Help: "What a budget counts; other algorithms have none."},
		field{
			Name: "key", Label: "key", Hint: "{lane}",
			Help: "A template of a job's fields. The rule counts each key separately; without one, all jobs together.",
		},
		field{
			Name: "action", Label: "action", Hint: "default: " + rules.Reject,
			Options: []string{"", rules.Reject, rules.Defer, rules.Shadow}, Help: "What to do with a refused job.",
		},
		field{
			Name: "away", Label: "away", Hint: "default: " + rules.AwayClosed,
			Options: []string{"", rules.AwayOpen, rules.AwayClosed, rules.AwayShare},
			Help:    "What passes while the store cannot be reached.",
		},
	)
}

// kindOfNumber returns the kind of a number of a bound: whole numbers are JSON, rates and durations text.
func kindOfNumber(name string) string {
	bound := reflect.TypeFor[rules.Bound]()
	for i := range bound.NumField() {
		f := bound.Field(i)
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name && f.Type == reflect.TypeFor[int64]() {
			return ":json"
		}
	}
	return ""
}

// newRule creates a rule from a form. If the input is refused, the form keeps it.
func (c *Console) newRule(w http.ResponseWriter, r *http.Request) {
	v := &newRuleView{Fields: ruleFields()}
	c.create(w, r, creation{
		page: "new-rule", data: v, to: "rules",
		put: func(api *client.Client, name string, spec []byte) error {
			_, err := api.PutRule(r.Context(), name, spec, client.Absent)
			return err
		},
		refuse: func(f *fault) {
			v.Name, v.Refused = strings.TrimSpace(r.PostForm.Get(formName)), f
			for i := range v.Fields {
				at := &v.Fields[i]
				if at.Value = r.PostForm.Get(at.Name); f.Field == at.Label {
					at.Wrong = f.Detail
				}
			}
		},
	})
}

// creation is a form that creates a queue or a rule.
type creation struct {
	page   string // its name
	data   any
	to     string // the first part of the path of what is created
	put    func(api *client.Client, name string, spec []byte) error
	refuse func(f *fault) // keeps the input and shows why it was refused
}

// create sends a form to the API and opens the page of what was created.
func (c *Console) create(w http.ResponseWriter, r *http.Request, n creation) {
	api := c.client(r)
	who, err := api.Whoami(r.Context())
	if err != nil { // check the user before reading the form
		c.refused(w, r, who, err)
		return
	}
	if f := readForm(w, r); f != nil {
		c.badFormOf(w, r, who, f)
		return
	}
	name := strings.TrimSpace(r.PostForm.Get(formName))
	body, err := object(r.PostForm)
	if body == nil {
		body = []byte("{}")
	}
	switch {
	case err != nil:
	case name == "":
		err = errors.New("enter a name")
	default:
		err = n.put(api, name, body)
	}
	if err == nil {
		http.Redirect(w, r, c.path(n.to, name), http.StatusSeeOther)
		return
	}
	var f *fault
	if p := (*client.Problem)(nil); errors.As(err, &p) {
		if f = faultOf(err); p.Reason == "revision_mismatch" {
			f.Field, f.Detail = "name", name+" exists already"
		}
	} else {
		f = formFault(err)
	}
	n.refuse(f)
	p := pageOf(n.page)
	c.render(w, r, f.Status, n.page, &view{Page: p, Title: p.title, Who: who, Data: n.data})
}

// sendTestJob returns the form that appends a job to a queue and then shows it.
func (c *Console) sendTestJob(queue string) action {
	id := "test-" + strings.ToLower(rand.Text()[:10])
	return action{
		Label: "Send a test job", Method: "POST", Path: apiPath("queues", queue, "jobs"), Role: auth.Produce,
		Fields: []field{
			{Name: "payload:json", Label: "Payload (JSON)", Kind: "lines", Value: `{"test": true}`, Required: true},
			{Name: "lane", Label: "Lane", Hint: "none"},
			{Name: "not_before", Label: "Not before", Hint: "now", Help: "A time, for example 2027-01-02T15:04:05Z."},
			{Name: "id", Value: id},
		},
		Command: []string{"push", queue, "-f", "-"},
		Next:    c.path("queues", queue, "jobs", id),
	}
}
