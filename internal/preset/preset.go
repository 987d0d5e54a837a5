// Package preset has the settings of queues that pace calls to well-known providers.
//
// The presets are the files in examples/providers. A preset sets how to reach the provider and what its answers mean,
// but not the rate, which depends on the account.
package preset

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/penstock/penstock/examples/providers"
	"github.com/penstock/penstock/internal/clip"
	"github.com/penstock/penstock/internal/config"
	"github.com/penstock/penstock/queue/invalid"
)

// Preset is the settings for a provider.
type Preset struct {
	Name    string
	About   string   // one line
	Secrets []string // names of the secrets that it refers to
	text    []byte
}

// placeholder is the domain of URLs that a user must replace. Nobody can own it (RFC 2606).
const placeholder = ".example.com"

var secret = regexp.MustCompile(`\$\{secret:([^}]+)\}`)

// all reads the files once, in order of their names.
var all = sync.OnceValues(func() ([]*Preset, error) {
	files, err := providers.Files.ReadDir(".")
	if err != nil {
		return nil, err
	}
	list := make([]*Preset, len(files))
	for i, f := range files {
		text, err := providers.Files.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		about, _, _ := strings.Cut(string(text), "\n")
		p := &Preset{Name: strings.TrimSuffix(f.Name(), ".yaml"), About: strings.TrimPrefix(about, "# "), text: text}
		for _, m := range secret.FindAllSubmatch(text, -1) {
			p.Secrets = append(p.Secrets, string(m[1]))
		}
		list[i] = p
	}
	return list, nil
})

// All returns the presets by name.
func All() ([]*Preset, error) { return all() }

// Names returns the names of the presets.
func Names() (names []string) {
	list, err := all()
	if err != nil {
		return nil
	}
	for _, p := range list {
		names = append(names, p.Name)
	}
	return names
}

// Find returns a preset. Its error lists the presets.
func Find(name string) (*Preset, error) {
	list, err := all()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if p.Name == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("there is no preset %s; the presets are %s%s",
		clip.Quote(name, 40), strings.Join(Names(), ", "), invalid.DidYouMean(name, Names()))
}

// parse returns the fields of the preset's queue.
func (p *Preset) parse() (map[string]any, error) {
	raw, err := config.JSON(p.Name+".yaml", p.text)
	if err != nil {
		return nil, err
	}
	var file struct {
		Queues []map[string]any `json:"queues"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("preset %s: %w", p.Name, err)
	}
	if len(file.Queues) != 1 || file.Queues[0]["name"] != p.Name {
		return nil, fmt.Errorf("preset %s: must have one queue of this name", p.Name)
	}
	return file.Queues[0], nil
}

// Over returns a copy of a spec with the fields of the preset, except name and rate, in place of the spec's own.
func (p *Preset) Over(spec map[string]any) (map[string]any, error) {
	fields, err := p.parse()
	if err != nil {
		return nil, err
	}
	delete(fields, "name")
	delete(fields, "rate")
	out := map[string]any{}
	maps.Copy(out, spec)
	maps.Copy(out, fields)
	return out, nil
}

// CheckURL returns an error if the URL of a spec is still the placeholder of the preset.
func (p *Preset) CheckURL(spec map[string]any) error {
	deliver, _ := spec["deliver"].(map[string]any)
	target, _ := deliver["http"].(map[string]any)
	text, _ := target["url"].(string)
	u, err := url.Parse(text)
	if err != nil || !strings.HasSuffix(u.Hostname(), placeholder) {
		return nil //nolint:nilerr // the server has a better error for an invalid URL
	}
	return fmt.Errorf("the URL of the preset %s, %s, is only a placeholder: set yours as deliver.http.url",
		p.Name, text)
}
