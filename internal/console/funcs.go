package console

import (
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/internal/wire"
)

// funcs returns the functions available in templates.
func (c *Console) funcs() template.FuncMap {
	return template.FuncMap{
		"asset":     c.asset,
		"path":      c.path,
		"api":       func(path string) string { return c.root + "/api" + path },
		"num":       num,
		"thousands": func(n int) string { return num(int64(n)) },
		"bytes":     bytesOf,
		"gauge":     func(used, most int64) gauge { return gaugeOf(used, most, bytesOf) },
		"rate":      perSecond,
		"ago":       span,
		"lasting":   lasting,
		"took":      took,
		"share":     func(of float64) gauge { return gauge{Used: fmt.Sprintf("%.0f %%", 100*of), Percent: 100 * of} },
		"percent":   func(share float64) string { return fmt.Sprintf("%.2f %%", 100*share) },
		"less":      func(a, b int64) int64 { return a - b },
		"plus":      func(a, b int) int { return a + b },
		"trim":      func(prefix string) string { return strings.TrimSuffix(prefix, "*") },
		"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"clock":     clock,
		"words":     func(s string) string { return strings.ReplaceAll(s, "_", " ") },
		"ticks":     ticks,
		"lower":     lower,
		"jobState":  jobState,
		"act":       func(a any, v *view) map[string]any { return map[string]any{"Action": a, "View": v} },
		"able":      func(a action, who wire.Whoami) bool { return a.Role == "" || mayDo(who, a.Role, a.Path) },
		"themes":    func() []string { return []string{"system", "light", "dark"} },
	}
}

// clock formats an instant as a time of day. All pages show UTC.
func clock(t time.Time) string { return t.UTC().Format("15:04:05 MST") }

// path returns the link to a page. It escapes the parts.
func (c *Console) path(parts ...string) string {
	link := c.root
	for _, part := range parts {
		link += "/" + url.PathEscape(part)
	}
	return link
}

// apiPath returns the path of an API operation. It escapes the parts.
func apiPath(parts ...string) string {
	path := "/v1"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// jobState returns the label of a job's state.
func jobState(state string) string {
	if state == "held" {
		return "needs a decision"
	}
	return state
}

// num formats a count with separators: 12,345.
func num(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// perSecond formats a rate with about three digits.
func perSecond(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return num(int64(v + 0.5))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// span formats a duration in its two largest units: 4 s, 12 m 30 s, 3 d 4 h.
func span(d time.Duration) string {
	units := []struct {
		name string
		of   time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}}
	d = max(d, 0).Round(time.Second)
	for i, u := range units {
		if d < u.of && u.name != "s" {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.of, u.name)
		if i+1 < len(units) && d%u.of/units[i+1].of > 0 {
			text += fmt.Sprintf(" %d %s", d%u.of/units[i+1].of, units[i+1].name)
		}
		return text
	}
	return ""
}

// upper returns a text with a capital first letter, lower one with a small first letter. Texts begin with ASCII.
func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }
