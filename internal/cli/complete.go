package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/queue/names"
)

// candidate is a word that the last one may become, and what it means.
type candidate struct{ word, help string }

// place is where in a command line the words so far have led.
type place struct {
	node   *kong.Node
	flag   *kong.Flag // whose value comes next, nil if none
	args   int        // arguments of the node that were given
	only   bool       // behind "--" there are arguments only
	server string
	reach  connection // how, besides what the environment says
}

// complete finds what the last word may become. files means the name of a file.
func complete(r *run, root *kong.Node, words []string) (found []candidate, files bool) {
	p := place{node: root, server: r.server, reach: r.connection}
	last := words[len(words)-1]
	for _, w := range words[:len(words)-1] {
		p.pass(w)
	}
	name, value, valued := strings.Cut(last, "=")
	switch {
	case p.flag != nil:
		return p.values(p.flag, last, "")
	case !p.only && strings.HasPrefix(last, "--") && valued:
		if f := p.named(name); f != nil {
			return p.values(f, value, name+"=")
		}
		return nil, false
	case !p.only && strings.HasPrefix(last, "-"):
		return p.flags(last), false
	case len(p.node.Children) > 0:
		return p.commands(last), false
	}
	return p.argument(r.ctx, last), false
}

// pass takes in a word that is complete.
func (p *place) pass(w string) {
	name, value, valued := strings.Cut(w, "=")
	switch {
	case p.flag != nil:
		p.set(p.flag, w)
		p.flag = nil
	case p.only:
		p.args++
	case w == "--":
		p.only = true
	case len(w) > 1 && w[0] == '-':
		f := p.named(name)
		switch {
		case f == nil:
		case f.IsBool():
			p.reach.InsecureToken = p.reach.InsecureToken || f.Name == "insecure-token"
		case valued:
			p.set(f, value)
		case w[1] != '-' && len(w) > 2: // -sURL
			p.set(f, w[2:])
		default:
			p.flag = f
		}
	default:
		for _, child := range p.node.Children {
			if child.Name == w || slices.Contains(child.Aliases, w) {
				p.node, p.args = child, 0
				return
			}
		}
		p.args++
	}
}

// set notes a value that what follows depends on.
func (p *place) set(f *kong.Flag, value string) {
	switch f.Name {
	case "server":
		p.server = value
	case "ca":
		p.reach.CA = value
	case "cert":
		p.reach.Cert = value
	case "key":
		p.reach.Key = value
	case "header":
		p.reach.Header = append(p.reach.Header, value)
	case "token-file":
		p.reach.TokenFile = value
	case "profile":
		p.reach.Profile = value
	}
}

// named returns the flag that a word begins with, nil if there is none.
func (p *place) named(w string) *kong.Flag {
	for _, group := range p.node.AllFlags(false) {
		for _, f := range group {
			if w == "--"+f.Name || f.Short != 0 && strings.HasPrefix(w, "-"+string(f.Short)) {
				return f
			}
		}
	}
	return nil
}

func (p *place) flags(begun string) (found []candidate) {
	for _, group := range p.node.AllFlags(true) {
		for _, f := range group {
			if word := "--" + f.Name; strings.HasPrefix(word, begun) {
				found = append(found, candidate{word: word, help: firstLine(f.Help)})
			}
		}
	}
	return found
}

func (p *place) commands(begun string) (found []candidate) {
	for _, child := range p.node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, begun) {
			found = append(found, candidate{word: child.Name, help: firstLine(child.Help)})
		}
	}
	return found
}

// values are those of a flag. Before them stands what is left alone.
func (p *place) values(f *kong.Flag, begun, before string) (found []candidate, files bool) {
	switch {
	case slices.Contains([]string{"FILE", "DIR", "RULE"}, f.PlaceHolder): // a rule to try may be one, too
		return nil, true
	case f.Name == "profile":
		return beginning(profiles(), begun, before), false
	case f.Name == "grant":
		return beginning(auth.Roles(), begun, before), false
	case f.Enum == "":
		return nil, false
	}
	return beginning(f.EnumSlice(), begun, before), false
}

// beginning are the words that begin so, with what stands before them.
func beginning[S ~string](words []S, begun, before string) (found []candidate) {
	for _, v := range words {
		if v != "" && strings.HasPrefix(string(v), begun) {
			found = append(found, candidate{word: before + string(v)})
		}
	}
	return found
}

// argument completes one that is not a flag's: the name of a queue or a rule, a setting, or one of a few words.
func (p *place) argument(ctx context.Context, begun string) (found []candidate) {
	at := p.args
	if n := len(p.node.Positional); n > 0 && at >= n && p.node.Positional[n-1].IsCumulative() {
		at = n - 1
	}
	if at >= len(p.node.Positional) {
		return nil
	}
	arg := p.node.Positional[at]
	words := []string{}
	switch {
	case arg.Name == "settings":
		return fieldCandidates(begun)
	case arg.Enum != "":
		words = arg.EnumSlice()
	case arg.Name == "queue", arg.Name == "name" && p.node.Parent.Name == "queue":
		words = p.names(ctx, begun, (*client.Client).QueueNames)
	case arg.Name == "name" && p.node.Parent.Name == "rule":
		words = p.names(ctx, begun, (*client.Client).RuleNames)
	case arg.Name == "name" && p.node.Parent.Name == "app":
		words = p.names(ctx, begun, appNames)
	case arg.Name == "id" && p.node.Parent.Name == "token":
		words = p.names(ctx, begun, tokenIDs)
	}
	return beginning(words, begun, "")
}

// patience is how long somebody who pressed a key waits for names. Tests, whose machine may be busy, have more.
var patience = 500 * time.Millisecond

// names asks for those of queues or rules. Without an answer in time there are none.
func (p *place) names(
	ctx context.Context, begun string, of func(*client.Client, context.Context, string) ([]string, error),
) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	api, err := p.reach.client(p.server)
	if err != nil {
		return nil
	}
	found, err := of(api, ctx, begun)
	if err != nil {
		return nil
	}
	// What goes onto a command line is a name or nothing.
	return slices.DeleteFunc(found, func(name string) bool { return names.Validate(name) != nil })
}

func appNames(api *client.Client, ctx context.Context, _ string) (list []string, err error) {
	apps, err := api.Apps(ctx)
	for i := range apps {
		list = append(list, apps[i].Name)
	}
	return list, err
}

func tokenIDs(api *client.Client, ctx context.Context, _ string) (ids []string, err error) {
	tokens, err := api.Tokens(ctx, "")
	for i := range tokens {
		ids = append(ids, tokens[i].ID)
	}
	return ids, err
}

func firstLine(help string) string {
	line, _, _ := strings.Cut(help, "\n")
	return line
}
