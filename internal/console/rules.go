package console

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/wire"
	"github.com/penstock/penstock/queue/rules"
)

// ruleRow is a rule of the list.
type ruleRow struct {
	wire.Rule
	Bounds []string
	Fill   gauge // of the keys that it may hold
}

// ruleList is a page of the list.
type ruleList struct {
	Rules []ruleRow
	Next  string // where it goes on; empty if it does not
}

func readRules(r *request) (any, error) {
	page, err := r.api.RulesPage(r.Context(), r.URL.Query().Get("after"), listRows)
	if err != nil {
		return nil, err
	}
	list := ruleList{Rules: make([]ruleRow, len(page.Rules)), Next: r.behind("after", page.Next)}
	for i := range page.Rules {
		list.Rules[i] = rowOf(&page.Rules[i])
	}
	return list, nil
}

func rowOf(rule *wire.Rule) ruleRow {
	row := ruleRow{Rule: *rule, Bounds: boundWords(rule.Bound)}
	if rule.Keys != nil {
		row.Fill = gaugeOf(rule.Keys.Held, rule.Keys.Max, num)
	}
	return row
}

// boundWords are the numbers of a limiter that there are.
func boundWords(b rules.Bound) (texts []string) {
	values := valuesOf(b)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, name+"="+values[name])
	}
	return texts
}

// ruleView is what the page of a rule shows.
type ruleView struct {
	ruleRow
	Overrides []override
	Unshown   int
	Spec      string
	// Asked is the question that was tried, and Answer what the rule says to it; nothing is taken.
	Asked   wire.Take
	Tried   bool
	Answer  wire.Taken
	Refused *fault // why it could not be asked
	Call    action
	Reset   []action
	// Top is for those who may see what jobs carry: keys may be of that.
	MaySeeKeys bool
	Top        wire.Top
	TopCall    action
}

// TopLists are the keys that are asked about most, and those that are refused most.
func (v ruleView) TopLists() []topList {
	return []topList{{"Asked most", v.Top.Asked}, {"Refused most", v.Top.Refused}}
}

type topList struct {
	Title string
	wire.KeyCounts
}

// Share is how much of all that was counted came by a key.
func (l topList) Share(k wire.KeyCount) gauge {
	g := gaugeOf(k.Count, l.Count, num)
	g.Tone = ""
	return g
}

type override struct {
	Key    string
	Bounds []string
}

// maxOverrides is how many are shown.
const maxOverrides = 100

func readRule(r *request) (any, error) {
	name, asked := r.PathValue("rule"), r.URL.Query()
	r.Title = "Rule " + name
	rule, err := r.api.Rule(r.Context(), name)
	if err != nil {
		return nil, err
	}
	v := ruleView{ruleRow: rowOf(&rule), Tried: asked.Has("cost"), Asked: wire.Take{Key: asked.Get("key"), Cost: 1}}
	keys := slices.Sorted(maps.Keys(rule.Overrides))
	for _, key := range keys[:min(len(keys), maxOverrides)] {
		v.Overrides = append(v.Overrides, override{key, boundWords(rule.Overrides[key])})
	}
	v.Unshown = len(keys) - len(v.Overrides)
	spec := rule.Rule
	spec.Overrides = nil
	if text, err := json.MarshalIndent(spec, "", "  "); err == nil {
		v.Spec = string(text)
	}
	v.Reset = resets(name, v.Asked.Key)
	v.TopCall = action{Method: "GET", Path: apiPath("rules", name, "top"), Command: []string{"rule", "top", name}}
	if v.MaySeeKeys = mayDo(r.who, auth.Payloads, v.TopCall.Path); v.MaySeeKeys {
		if v.Top, err = r.api.Top(r.Context(), name); err != nil {
			return nil, err
		}
	}
	if !v.Tried {
		return v, nil
	}
	if v.Asked.Cost, err = strconv.ParseInt(asked.Get("cost"), 10, 64); err != nil {
		v.Refused = &fault{Field: "cost", Detail: "is no whole number"}
		return v, nil
	}
	v.Call = action{
		Method: "POST", Path: apiPath("rules", name, "peek"),
		Command: []string{"rule", "peek", name, v.Asked.Key, "--cost", strconv.FormatInt(v.Asked.Cost, 10)},
	}
	v.Answer, err = r.api.Take(r.Context(), name, rules.TakePeek, v.Asked)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Status/100 == 4 {
		v.Refused, err = faultOf(err), nil
	}
	return v, err
}

// Wait is how long until the question would be allowed.
func (v ruleView) Wait() time.Duration {
	return time.Duration(v.Answer.RetryAfterMS) * time.Millisecond
}

// resets forget what was taken: of the key that was asked about, and of all.
func resets(name, key string) []action {
	all := action{
		Label: "Forget all that was taken", Method: "POST", Path: apiPath("rules", name, "reset"), Role: auth.Operate,
		Danger:  true,
		Confirm: "All keys start anew: as much passes at once as after idleness.",
		Fields:  []field{{Name: "all:json", Value: "true"}}, Command: []string{"rule", "reset", name, "--all", "--yes"},
	}
	if key == "" {
		return []action{all}
	}
	one := all
	one.Label, one.Confirm = "Forget what was taken by this key",
		"It starts anew: as much passes at once as after idleness."
	one.Fields, one.Command = []field{{Name: "key", Value: key}}, []string{"rule", "reset", name, key}
	return []action{one, all}
}
