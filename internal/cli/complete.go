package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/auth"
	"github.com/penstock/penstock/internal/cli/command"
	"github.com/penstock/penstock/internal/cli/queuecmd"
	"github.com/penstock/penstock/internal/client"
	"github.com/penstock/penstock/internal/preset"
	"github.com/penstock/penstock/queue/names"
)

// candidate is a completion of the last word, and its help.
type candidate struct{ word, help string }

// place is the position in the command line after the words so far.
type place struct {
	node   *kong.Node
	flag   *kong.Flag // expects its value next; may be nil
	args   int        // number of arguments of the node so far
	only   bool       // only arguments follow, after "--"
	server string
	reach  command.Connection
}

// complete returns the completions of the last word. files reports that a file name is expected.
func complete(r *command.Run, root *kong.Node, words []string) (found []candidate, files bool) {
	p := place{node: root, server: r.Server, reach: r.Connection}
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
	return p.argument(r.Ctx, last), false
}

// pass advances by a complete word.
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

// set stores the value of a flag that later completions need.
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

// named returns the flag of a word, or nil.
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

func (p *place) flags(prefix string) (found []candidate) {
	for _, group := range p.node.AllFlags(true) {
		for _, f := range group {
			if word := "--" + f.Name; strings.HasPrefix(word, prefix) {
				found = append(found, candidate{word: word, help: firstLine(f.Help)})
			}
		}
	}
	return found
}

func (p *place) commands(prefix string) (found []candidate) {
	for _, child := range p.node.Children {
		if !child.Hidden && strings.HasPrefix(child.Name, prefix) {
			found = append(found, candidate{word: child.Name, help: firstLine(child.Help)})
		}
	}
	return found
}

// values returns the values of a flag with a prefix. before is put before each of them.
func (p *place) values(f *kong.Flag, prefix, before string) (found []candidate, files bool) {
	switch {
	case slices.Contains([]string{"FILE", "DIR", "RULE"}, f.PlaceHolder): // a rule to replay may be a file
		return nil, true
	case f.Name == "set":
		queuecmd.CompleteSetting(prefix, func(word, help string) {
			found = append(found, candidate{word: before + word, help: help})
		})
		return found, false
	case f.Name == "profile":
		return matching(command.Profiles(), prefix, before), false
	case f.Name == "preset":
		return matching(preset.Names(), prefix, before), false
	case f.Name == "grant":
		return matching(auth.Roles(), prefix, before), false
	case f.Enum == "":
		return nil, false
	}
	return matching(f.EnumSlice(), prefix, before), false
}

// matching returns the words with a prefix, each behind before.
func matching[S ~string](words []S, prefix, before string) (found []candidate) {
	for _, v := range words {
		if v != "" && strings.HasPrefix(string(v), prefix) {
			found = append(found, candidate{word: before + string(v)})
		}
	}
	return found
}

// argument completes an argument: a name, an id, a setting or a word of an enumeration.
func (p *place) argument(ctx context.Context, prefix string) (found []candidate) {
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
		queuecmd.CompleteSetting(prefix, func(word, help string) {
			found = append(found, candidate{word: word, help: help})
		})
		return found
	case arg.Enum != "":
		words = arg.EnumSlice()
	case arg.Name == "queue", arg.Name == "name" && p.node.Parent.Name == "queue":
		words = p.names(ctx, prefix, (*client.Client).QueueNames)
	case arg.Name == "name" && p.node.Parent.Name == "rule":
		words = p.names(ctx, prefix, (*client.Client).RuleNames)
	case arg.Name == "name" && p.node.Parent.Name == "app":
		words = p.names(ctx, prefix, appNames)
	case arg.Name == "id" && p.node.Parent.Name == "token":
		words = p.names(ctx, prefix, tokenIDs)
	}
	return matching(words, prefix, "")
}

// patience is the time that a user waits for names. Tests have more, because their machine may be busy.
var patience = 500 * time.Millisecond

// names asks the server for names with a prefix. Without an answer in time it returns none.
func (p *place) names(
	ctx context.Context, prefix string, of func(*client.Client, context.Context, string) ([]string, error),
) []string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	api, err := p.reach.Client(p.server)
	if err != nil {
		return nil
	}
	found, err := of(api, ctx, prefix)
	if err != nil {
		return nil
	}
	// Only valid names may reach a command line.
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
