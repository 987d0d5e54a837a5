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

// ruleRow is a row of the list.
type ruleRow struct {
	wire.Rule
	Bounds []string
	Fill   gauge // the number of keys and its maximum
}

// ruleList is a page of the list.
type ruleList struct {
	Rules []ruleRow
	Next  string // link to the next page; empty on the last page
	// MayCreate reports whether the user may create a rule.
	MayCreate bool
}

func readRules(r *request) (any, error) {
	page, err := r.api.RulesPage(r.Context(), r.URL.Query().Get("after"), listRows)
	if err != nil {
		return nil, err
	}
	list := ruleList{Rules: make([]ruleRow, len(page.Rules)), Next: r.behind("after", page.Next)}
	list.MayCreate = mayHave(r.who, auth.Configure)
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

// boundWords returns the numbers that a limiter sets, as NAME=VALUE.
func boundWords(b rules.Bound) (texts []string) {
	values := valuesOf(b)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts = append(texts, name+"="+values[name])
	}
	return texts
}

// ruleView is the data of a rule's page.
type ruleView struct {
	ruleRow
	Overrides []override
	Unshown   int
	Spec      string
	// Asked is the request to check, Answer the rule's answer. A check takes nothing.
	Asked   wire.Take
	Tried   bool
	Answer  wire.Taken
	Refused *fault // why the check failed
	Call    action
	Reset   []action
	// MaySeeKeys reports whether the user may see payloads, and so keys, which may be part of one.
	MaySeeKeys bool
	Top        wire.Top
	TopCall    action
}

// TopLists returns the keys with the most requests and those with the most refusals.
func (v ruleView) TopLists() []topList {
	return []topList{{"Most requests", v.Top.Asked}, {"Most refusals", v.Top.Refused}}
}

type topList struct {
	Title string
	wire.KeyCounts
}

// Share returns a key's share of the total.
func (l topList) Share(k wire.KeyCount) gauge {
	g := gaugeOf(k.Count, l.Count, num)
	g.Tone = ""
	return g
}

type override struct {
	Key    string
	Bounds []string
}

// maxOverrides is the number of overrides shown.
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
		v.Refused = &fault{Field: "cost", Detail: "must be a whole number"}
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

// Wait returns the time until the request would be allowed.
func (v ruleView) Wait() time.Duration {
	return time.Duration(v.Answer.RetryAfterMS) * time.Millisecond
}

// resets returns the actions that reset the key of the check, and all keys.
func resets(name, key string) []action {
	all := action{
		Label: "Reset all keys", Method: "POST", Path: apiPath("rules", name, "reset"), Role: auth.Operate,
		Danger:  true,
		Confirm: "All keys get their full limit back, as if they had been idle.",
		Fields:  []field{{Name: "all:json", Value: "true"}}, Command: []string{"rule", "reset", name, "--all", "--yes"},
	}
	if key == "" {
		return []action{all}
	}
	single := all
	single.Label, single.Confirm = "Reset this key", "The key gets its full limit back, as if it had been idle."
	single.Fields, single.Command = []field{{Name: "key", Value: key}}, []string{"rule", "reset", name, key}
	return []action{single, all}
}
