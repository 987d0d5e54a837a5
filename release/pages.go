package main

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// overview returns penstock(1).
func (o options) overview(model *kong.Application, others []string) string {
	p := o.newPage("penstock", "job queue with an exact rate")
	p.line(".SH SYNOPSIS")
	p.synopsis(model.Node, "penstock")
	p.line(".SH DESCRIPTION")
	p.prose(model.Help)
	p.line(".SH COMMANDS")
	for _, c := range visible(model.Node) {
		p.line(".TP\n\\fB%s\\fR(1)", escape("penstock-"+c.Name))
		p.help(c.Help)
	}
	p.line(".SH OPTIONS")
	p.flags(model.Flags)
	p.seeAlso(others)
	return p.String()
}

// commandPage returns the page of a command with its subcommands.
func (o options) commandPage(c *kong.Node) string {
	name := "penstock-" + c.Name
	p := o.newPage(name, c.Help)
	p.line(".SH SYNOPSIS")
	commands := leaves(c)
	for i, leaf := range commands {
		if i > 0 {
			p.line(".br")
		}
		p.synopsis(leaf, commandName(leaf))
	}
	p.line(".SH DESCRIPTION")
	p.prose(c.Help)
	p.prose(c.Detail)
	if len(c.Children) == 0 {
		if len(c.Positional)+len(c.Flags) > 0 {
			p.line(".SH OPTIONS")
		}
		p.arguments(c)
		p.flags(c.Flags)
	} else {
		p.line(".SH COMMANDS")
		for _, leaf := range commands {
			p.line(".SS %s", quoted(commandName(leaf)))
			p.prose(leaf.Help)
			p.prose(leaf.Detail)
			p.arguments(leaf)
			p.flags(leaf.Flags)
		}
	}
	p.seeAlso([]string{"penstock"})
	return p.String()
}

// serverPage returns the page of a program without commands.
func (o options) serverPage(a *kong.Application) string {
	var about string
	for _, prog := range programs {
		if prog.name == a.Name {
			about = prog.about
		}
	}
	p := o.newPage(a.Name, "Penstock "+a.Name+", "+about)
	p.line(".SH SYNOPSIS")
	p.synopsis(a.Node, a.Name)
	p.line(".SH DESCRIPTION")
	p.prose(a.Help)
	p.line(".SH OPTIONS")
	p.flags(a.Flags)
	p.seeAlso([]string{"penstock"})
	return p.String()
}

// leaves returns the visible commands below a node that have no subcommands, or the node itself.
func leaves(node *kong.Node) []*kong.Node {
	if len(node.Children) == 0 {
		return []*kong.Node{node}
	}
	var found []*kong.Node
	for _, c := range visible(node) {
		found = append(found, leaves(c)...)
	}
	return found
}

// commandName returns the words that call a command.
func commandName(node *kong.Node) string {
	var words []string
	for n := node; n != nil; n = n.Parent {
		words = append(words, n.Name)
	}
	slices.Reverse(words)
	return strings.Join(words, " ")
}

// seeAlso ends a page with the names of others.
func (p *page) seeAlso(names []string) {
	p.line(".SH SEE ALSO")
	for i, name := range names {
		end := ","
		if i == len(names)-1 {
			end = ""
		}
		p.line(".BR %s (1)%s", quoted(name), end)
	}
	p.line(".PP\nThe documentation is at\n.UR https://%s\nthe project\\(aqs page\n.UE .", home)
}
