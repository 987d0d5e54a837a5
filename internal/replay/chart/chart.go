// Package chart draws series over time as one HTML page that needs nothing else: no server, no network, no fonts of its
// own. What is drawn is as wide as the window, dark where the reader likes it so, and told in a table too.
//
// uplot/ is uPlot 1.6.32 as its authors publish it, with its licence.
package chart

import (
	_ "embed"
	"encoding/json"
	"html"
	"strings"
	"time"
)

// Colours, which the colour-blind tell apart. Each means the same in every chart.
const (
	Given   = "#9aa5b1" // grey: what comes from outside, what is asked for or what a receiver allows
	Passed  = "#2b6cb0" // blue: what Penstock lets through, or holds
	Refused = "#d9822b" // orange: what it refuses
)

// Page is a page of panels that share their times.
type Page struct {
	Title string
	// Note stands below the title.
	Note   string
	Panels []Panel
}

// Panel is one set of axes.
type Panel struct {
	Title string `json:"title"`
	// Unit is what the values count.
	Unit   string   `json:"unit"`
	Series []Series `json:"series"`
}

// Series is one line, with the value from each instant of Times on.
type Series struct {
	Name   string  `json:"name"`
	Colour string  `json:"colour"`
	Values []int64 `json:"values"`
}

var (
	//go:embed uplot/uPlot.iife.min.js
	uplotScript string
	//go:embed uplot/uPlot.min.css
	uplotStyle string
	//go:embed uplot/LICENSE
	uplotLicence string
	//go:embed page.js
	pageScript string
	//go:embed page.css
	pageStyle string
	//go:embed page.html
	pageText string
)

// Script is uPlot, for whoever serves it as a file.
func Script() []byte { return []byte(uplotScript) }

// Style is uPlot's style sheet.
func Style() []byte { return []byte(uplotStyle) }

// Licence is under which uPlot is passed on.
func Licence() []byte { return []byte(uplotLicence) }

// HTML writes the page. at are the instants of the values, and the end of the last.
func (p *Page) HTML(at []time.Time) ([]byte, error) {
	times := make([]float64, len(at))
	for i, t := range at {
		times[i] = float64(t.UnixMicro()) / 1e6
	}
	data, err := json.Marshal(map[string]any{"times": times, "panels": p.Panels}) // it escapes what could end a script
	if err != nil {
		return nil, err
	}
	var panels strings.Builder
	for _, panel := range p.Panels {
		panels.WriteString(
			"<section>\n<h2>" + html.EscapeString(panel.Title) + "</h2>\n<div class=\"panel\"></div>\n</section>\n",
		)
	}
	// Not html/template: with it the linker keeps every method of every type in the program.
	return []byte(strings.NewReplacer(
		"{{title}}", html.EscapeString(p.Title), "{{note}}", html.EscapeString(p.Note), "{{panels}}", panels.String(),
		"{{style}}", uplotStyle+pageStyle, "{{data}}", string(data), "{{script}}", uplotScript+"\n"+pageScript,
	).Replace(pageText)), nil
}
