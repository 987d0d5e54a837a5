// Package chart draws series over time as one self-contained HTML page, without server, network or fonts. The page is
// as wide as the window, dark if the reader prefers that, and also has the values in a table.
//
// uplot/ is uPlot 1.6.32 as its authors publish it, with its license.
package chart

import (
	_ "embed"
	"encoding/json"
	"html"
	"strings"
	"time"
)

// Colors for the color-blind. Each means the same in every chart.
const (
	Given   = "#9aa5b1" // gray: outside values, such as demand or a receiver's limit
	Passed  = "#2b6cb0" // blue: what Penstock allows, or holds
	Refused = "#d9822b" // orange: what it refuses
)

// Page is a page of panels with the same times.
type Page struct {
	Title string
	// Note is the text below the title.
	Note   string
	Panels []Panel
}

// Panel is one set of axes.
type Panel struct {
	Title string `json:"title"`
	// Unit is the unit of the values.
	Unit   string   `json:"unit"`
	Series []Series `json:"series"`
}

// Series is one line; each value holds from its instant in the page's times on.
type Series struct {
	Name   string  `json:"name"`
	Color  string  `json:"color"`
	Values []int64 `json:"values"`
}

var (
	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicense string
	//go:embed page.js
	pageScript string
	//go:embed page.css
	pageStyle string
	//go:embed page.html
	pageText string
)

// Script returns uPlot, to serve it as a file.
func Script() []byte { return []byte(uplotScript) }

// Style returns uPlot's style sheet.
func Style() []byte { return []byte(uplotStyle) }

// License returns uPlot's license.
func License() []byte { return []byte(uplotLicense) }

// HTML returns the page. at has the instants of the values, and the end of the last one.
func (p *Page) HTML(at []time.Time) ([]byte, error) {
	times := make([]float64, len(at))
	for i, t := range at {
		times[i] = float64(t.UnixMicro()) / 1e6
	}
	// json.Marshal escapes text that could end a script.
	data, err := json.Marshal(map[string]any{"times": times, "panels": p.Panels})
	if err != nil {
		return nil, err
	}
	var panels strings.Builder
	for _, panel := range p.Panels {
		panels.WriteString(
			"<section>\n<h2>" + html.EscapeString(panel.Title) + "</h2>\n<div class=\"panel\"></div>\n</section>\n",
		)
	}
	// This avoids html/template, with which the linker keeps every method of every type in the program.
	return []byte(strings.NewReplacer(
		"{{title}}", html.EscapeString(p.Title), "{{note}}", html.EscapeString(p.Note), "{{panels}}", panels.String(),
		"{{style}}", uplotStyle+pageStyle, "{{data}}", string(data), "{{script}}", uplotScript+"\n"+pageScript,
	).Replace(pageText)), nil
}
