package replay

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/leaky"
	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/rules"
)

// ReadRules reads the value of --rule: the text of a rule, such as "meter rate=5/s burst=10", or the name of a file of
// rules in YAML or JSON. The file has one rule, a list, or a list named rules. A text may have its own key, key={path};
// otherwise --key applies. In a file, a key names fields of jobs, so --key replaces it.
func ReadRules(text string, key *string) ([]Rule, error) {
	if IsRule(text) {
		r, err := ReadRule(text, key)
		if err != nil {
			return nil, fmt.Errorf("--rule %q: %w", text, err)
		}
		return []Rule{r}, nil
	}
	read, err := ruleFile(text, key)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"--rule %s: neither a file nor a rule, which begins with one of %v, such as \"meter rate=5/s burst=10\"",
			clip.Quote(text, 100), rules.Algorithms(),
		)
	}
	if err != nil {
		return nil, fmt.Errorf("--rule %s: %w", text, err)
	}
	return read, nil
}

// IsRule reports whether a text is a rule, which begins with its algorithm.
func IsRule(text string) bool {
	words := strings.Fields(text)
	return len(words) > 0 && slices.Contains(rules.Algorithms(), leaky.Algorithm(words[0]))
}

// ReadRule reads the text of a rule, such as "meter rate=5/s burst=10", with its own key, key={path}, or the given one.
func ReadRule(text string, key *string) (r Rule, err error) {
	words := strings.Fields(text)
	var kept []string
	r.Key = key
	for i, word := range words {
		if own, ok := strings.CutPrefix(word, "key="); ok {
			if slices.ContainsFunc(words[i+1:], func(w string) bool { return strings.HasPrefix(w, "key=") }) {
				return r, errors.New("key: is given twice")
			}
			r.Key = &own
			continue
		}
		kept = append(kept, word)
	}
	data, err := object(kept[1:], []string{"limit", "burst"}, "algorithm", kept[0])
	if err != nil {
		return r, err
	}
	if r.Rule, err = rules.Parse(data); err != nil {
		return r, err
	}
	r.Label = strings.Join(kept, " ")
	if r.Name != "" {
		r.Label = r.Name
	}
	if r.Key != nil {
		_, err = parseTemplate(*r.Key)
	}
	return r, err
}

// object makes JSON from words such as rate=5/s, after a given member. Fields named in numbers become numbers.
func object(words, numbers []string, name, value string) ([]byte, error) {
	var b bytes.Buffer
	write := func(name, value string) {
		b.WriteByte(",{"[min(1, max(0, 1-b.Len()))])
		b.Write(quote(name))
		b.WriteByte(':')
		if slices.Contains(numbers, name) && json.Valid([]byte(value)) {
			b.WriteString(value)
		} else {
			b.Write(quote(value))
		}
	}
	write(name, value)
	for _, word := range words {
		field, value, ok := strings.Cut(word, "=")
		if !ok || field == "" {
			return nil, fmt.Errorf("%q is not as FIELD=VALUE", clip.Quote(word, 40))
		}
		write(field, value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func quote(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil { // not reached: every string can be written
		return []byte(`""`)
	}
	return b
}

func ruleFile(name string, key *string) ([]Rule, error) {
	data, err := config.Read(name)
	if err != nil {
		return nil, err
	}
	if data, err = config.JSON("", data); err != nil {
		return nil, fmt.Errorf("is neither YAML nor JSON: %w", err)
	}
	list, err := ruleList(data)
	if err != nil {
		return nil, err
	}
	read := make([]Rule, 0, len(list))
	for i, one := range list {
		r, err := rules.Parse(one)
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		label := r.Name
		if label == "" {
			label = "rule " + strconv.Itoa(i+1)
		}
		tried, keyed := Try(r, label, key)
		if !keyed {
			return nil, fmt.Errorf("rule %s counts by %s, a field of jobs: give --key with a field of the log", label, r.Key)
		}
		read = append(read, tried)
	}
	return read, nil
}

// Try prepares a store's rule for a replay. Its key names fields of jobs; key, a template of the log's fields, replaces
// it. keyed is false if the rule has a key and key is nil.
func Try(r rules.Rule, label string, key *string) (tried Rule, keyed bool) {
	if r.Key == "" {
		all := ""
		return Rule{Rule: r, Label: label, Key: &all}, true
	}
	return Rule{Rule: r, Label: label, Key: key}, key != nil
}

// ruleList returns the rules in a file.
func ruleList(data []byte) (list []json.RawMessage, err error) {
	if json.Unmarshal(data, &list) == nil {
		return list, notEmpty(list)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, errors.New("is no rule, and no list of rules")
	}
	if text, ok := file["rules"]; ok {
		if err := json.Unmarshal(text, &list); err != nil {
			return nil, errors.New("rules must be a list")
		}
		return list, notEmpty(list)
	}
	return []json.RawMessage{data}, nil
}

func notEmpty(list []json.RawMessage) error {
	if len(list) == 0 {
		return errors.New("has no rule")
	}
	return nil
}

// ReadQueue reads the value of --queue: "rate=14/s capacity=1000 burst=1".
func ReadQueue(text string) (Queue, error) {
	words := strings.Fields(text)
	q := Queue{Label: strings.Join(words, " ")}
	for _, word := range words {
		field, _, _ := strings.Cut(word, "=")
		if !slices.Contains([]string{"rate", "capacity", "burst"}, field) {
			return q, fmt.Errorf(
				"--queue %q: %s is not supported; give rate, capacity and burst, such as \"rate=14/s capacity=1000 burst=1\"", text,
				cut(field, 40),
			)
		}
	}
	data, err := object(words, []string{"capacity", "burst"}, "name", "tried")
	if err == nil {
		q.Spec, err = queue.ParseSpec(data)
	}
	if err != nil {
		return q, fmt.Errorf("--queue %q: %w", text, err)
	}
	if q.Rate.Unlimited() {
		return q, fmt.Errorf("--queue %q: at an unlimited rate no job waits; give a rate such as 14/s", text)
	}
	return q, nil
}
