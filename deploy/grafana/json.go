package grafana

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
)

// JSON returns the dashboard in the format that Grafana imports.
func (d Dashboard) JSON() ([]byte, error) {
	page := object{
		"uid": "penstock-" + d.Name, "title": "Penstock / " + d.Title, "description": d.About,
		"tags": []string{"penstock"}, "schemaVersion": 39, "editable": true, "graphTooltip": 1, "timezone": "browser",
		"refresh": "30s", "time": object{"from": "now-1h", "to": "now"},
		"annotations": object{"list": d.marks()},
		"links": []any{
			object{
				"type": "dashboards", "tags": []string{"penstock"}, "title": "Penstock", "icon": "external link",
				"asDropdown": false, "includeVars": true, "keepTime": true, "targetBlank": false,
			},
			object{"type": "link", "title": "Console", "icon": "external link", "url": "$console", "targetBlank": true},
		},
		"templating": object{"list": d.variables()}, "panels": d.panels(),
	}
	var out bytes.Buffer
	to := json.NewEncoder(&out)
	to.SetEscapeHTML(false)
	to.SetIndent("", "  ")
	err := to.Encode(page)
	return out.Bytes(), err
}

// object is a JSON object. Its members are encoded in order of name, so that the output is reproducible.
type object map[string]any

// source is the chosen data source.
var source = object{"type": "prometheus", "uid": "${datasource}"}

func (d Dashboard) variables() []any {
	all := []any{object{
		"name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus", "hide": 0,
	}}
	for _, p := range d.Picks {
		of := ""
		if p.Of != "" {
			of = "{" + p.Of + "}"
		}
		ask := "label_values(" + p.Metric + of + ", " + p.Label + ")"
		all = append(all, object{
			"name": cmp.Or(p.Name, p.Label), "type": "query", "datasource": source, "definition": ask, "hide": 0,
			"query": object{"query": ask, "refId": "A"}, "refresh": 2, "sort": 1, // refresh when the time range changes
			"regex": p.Regex,
			"multi": true, "includeAll": true, "allValue": ".*",
			"current": object{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}},
		})
	}
	return append(all, object{
		"name": "console", "label": "console", "type": "textbox", "hide": 0, "query": console,
		"current": object{"text": console, "value": console},
	})
}

// console is the initial address of the console, which the user can change.
const console = "http://localhost:8080/console"

// marks returns the marks of the dashboard as Grafana's annotations.
func (d Dashboard) marks() []any {
	var all []any
	for _, m := range d.Marks() {
		all = append(all, object{
			"name": m.Name, "datasource": source, "enable": true, "hide": false, "iconColor": m.Color, "expr": m.Expr,
			"step": "60s", "titleFormat": m.Name, "textFormat": m.Text, "tagKeys": "",
		})
	}
	return all
}

func (d Dashboard) panels() []any {
	var all []any
	y := 0
	add := func(panel object, x, width, height int) {
		panel["id"], panel["gridPos"] = len(all)+1, object{"x": x, "y": y, "w": width, "h": height}
		all = append(all, panel)
	}
	for _, row := range d.Rows {
		if row.Title != "" {
			add(object{"type": "row", "title": row.Title, "collapsed": false, "panels": []any{}}, 0, 24, 1)
			y++
		}
		x := 0
		for _, p := range row.Panels {
			panel := p.object()
			panel["fieldConfig"].(object)["defaults"].(object)["links"] = d.toQueue(p)
			add(panel, x, p.Width, row.Height)
			x += p.Width
		}
		y += row.Height
	}
	return all
}

func (p Panel) object() object {
	defaults := object{
		"unit": p.Unit, "min": 0, "noValue": "none", "custom": p.custom(), "color": object{"mode": "palette-classic"},
		"thresholds": object{"mode": "absolute", "steps": p.steps()},
	}
	if p.Unit == Share && p.Kind == Bars {
		defaults["max"] = 1
	}
	if p.Kind == Number || p.Kind == Bars || p.Kind == Table || p.Kind == Timeline && p.Bad > 0 {
		defaults["color"] = object{"mode": "thresholds"}
	}
	panel := object{
		"type": p.Kind, "title": p.Title, "description": p.About, "datasource": source,
		"fieldConfig": object{"defaults": defaults, "overrides": []any{}}, "options": p.options(), "targets": p.targets(),
	}
	if p.Kind == Table {
		panel["transformations"] = []any{object{
			"id": "organize", "options": object{"excludeByName": object{"Time": true, "__name__": true}},
		}}
	}
	return panel
}

// toQueue returns the links from a queue's series to the queue's page in the console, and to its dashboard.
func (d Dashboard) toQueue(p Panel) []any {
	name := "${__field.labels.queue}"
	switch {
	case p.Kind == Table && strings.Contains(p.Queries[0].Expr, "by (queue"):
		name = "${__data.fields.queue}"
	case !strings.HasPrefix(p.Queries[0].Legend, "{{queue}}"):
		return []any{}
	}
	links := []any{object{"title": "Console: " + name, "url": "${console}/queues/" + name, "targetBlank": true}}
	if d.Name == queue.Name {
		return links
	}
	return append(links, object{
		"title": "Queue " + name,
		"url":   "/d/penstock-queue?var-queue=" + name + "&var-datasource=${datasource}&${__url_time_range}",
	})
}

func (p Panel) targets() []any {
	all := make([]any, len(p.Queries))
	latest := p.Kind == Bars || p.Kind == Table
	for i, q := range p.Queries {
		format := "time_series"
		switch p.Kind {
		case Table:
			format = "table"
		case Heatmap:
			format = "heatmap"
		}
		all[i] = object{
			"refId": string(rune('A' + i)), "datasource": source, "editorMode": "code", "expr": q.Expr,
			"legendFormat": q.Legend, "format": format, "instant": latest, "range": !latest,
		}
	}
	return all
}

// steps returns the thresholds of a panel's colors.
func (p Panel) steps() []any {
	if p.BadBelow > 0 {
		return []any{object{"color": "red", "value": nil}, object{"color": "green", "value": p.BadBelow}}
	}
	all := []any{object{"color": "green", "value": nil}}
	if p.Warn > 0 {
		all = append(all, object{"color": "orange", "value": p.Warn})
	}
	if p.Bad > 0 {
		all = append(all, object{"color": "red", "value": p.Bad})
	}
	return all
}

// custom returns the settings specific to the kind of panel.
func (p Panel) custom() object {
	switch p.Kind {
	case Chart:
		stacking, fill, limits := "none", 0, "off"
		if p.Stacked {
			stacking, fill = "normal", 30
		}
		if p.Warn > 0 || p.Bad > 0 || p.BadBelow > 0 {
			limits = "dashed"
		}
		return object{
			"drawStyle": "line", "lineWidth": 1, "fillOpacity": fill, "showPoints": "never", "spanNulls": false,
			"stacking": object{"mode": stacking, "group": "A"}, "thresholdsStyle": object{"mode": limits},
		}
	case Timeline:
		return object{"fillOpacity": 70, "lineWidth": 0}
	}
	return object{}
}

func (p Panel) options() object {
	legend := object{"displayMode": "list", "placement": "bottom", "showLegend": true, "calcs": []any{}}
	tooltip := object{"mode": "multi", "sort": "desc"}
	last := object{"calcs": []string{"lastNotNull"}, "fields": "", "values": false}
	switch p.Kind {
	case Number:
		return object{
			"reduceOptions": last, "colorMode": "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto",
			"orientation": "auto", "wideLayout": true,
		}
	case Bars:
		return object{
			"reduceOptions": last, "displayMode": "basic", "orientation": "horizontal", "valueMode": "text",
			"showUnfilled": true,
		}
	case Heatmap:
		return object{
			"calculate": false, "cellGap": 1, "yAxis": object{"unit": p.Unit, "axisPlacement": "left"},
			"color": object{"mode": "scheme", "scheme": "Blues", "steps": 64}, "legend": object{"show": true},
			"rowsFrame": object{"layout": "auto"}, "tooltip": object{"mode": "single"},
		}
	case Table:
		return object{"showHeader": true, "cellHeight": "sm", "footer": object{"show": false}}
	case Timeline:
		return object{
			"legend": object{"showLegend": false}, "tooltip": object{"mode": "single"}, "mergeValues": true,
			"showValue": "never", "rowHeight": 0.8,
		}
	}
	return object{"legend": legend, "tooltip": tooltip}
}
