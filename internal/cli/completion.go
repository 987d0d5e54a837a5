package cli

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
)

type completionCmd struct {
	Shell string `arg:"" help:"Which shell: ${enum}." enum:"bash,zsh,fish"`
}

// Help is shown below the flags.
func (completionCmd) Help() string {
	return `Prints a script that completes commands, flags, their values and the names of queues. For these
it asks the ingress that --server or PENSTOCK_URL names, if that answers within half a second.

Examples, to have it in every new shell:
  penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  penstock completion zsh > "${fpath[1]}/_penstock"
  penstock completion fish > ~/.config/fish/completions/penstock.fish

Only in this one:
  source <(penstock completion bash)
  source <(penstock completion zsh)
  penstock completion fish | source`
}

// The scripts ask "penstock complete" for every word, so that they stay right whatever
// commands there are.
var (
	//go:embed completion.bash
	completionBash string
	//go:embed completion.zsh
	completionZsh string
	//go:embed completion.fish
	completionFish string
)

func (c *completionCmd) Run(r *run) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := io.WriteString(r.Out, script)
	return err
}

// completeCmd is what the scripts ask. Its last word is the one that is to be completed, the
// others stand before it; bash gives the line up to the cursor instead. It answers with a
// candidate a line and, but for bash, what it means behind a tab; with a line ":files"
// where the name of a file is meant.
type completeCmd struct {
	connection
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:""`
}

// Run never fails on what it does not understand: it would do so in the middle of what
// somebody types.
func (c *completeCmd) Run(r *run, k *kong.Context) error {
	words := c.Words
	if c.Shell == "bash" {
		words = split(strings.Join(words, " "))
	}
	if len(words) == 0 {
		words = []string{""}
	}
	found, files := complete(r, k.Model.Node, words)
	if files {
		_, err := fmt.Fprintln(r.Out, ":files")
		return err
	}
	// Bash takes words apart at these, and replaces what stands behind the last.
	kept := strings.LastIndexAny(words[len(words)-1], "=:") + 1
	for _, f := range found {
		line := f.word
		switch {
		case c.Shell == "bash":
			line = line[kept:]
		case f.help != "":
			line += "\t" + f.help
		}
		if _, err := fmt.Fprintln(r.Out, line); err != nil {
			return err
		}
	}
	return nil
}

// split takes a line apart as a shell would, but for what it would replace, and without the
// program at its beginning. The last word is what the line ends with, so it may be empty.
func split(line string) []string {
	var words []string
	var word []byte
	begun, quote := false, byte(0)
	for i := 0; i < len(line); i++ {
		c := line[i]
		space := quote == 0 && (c == ' ' || c == '\t')
		switch {
		case space && begun:
			words, word = append(words, string(word)), nil
		case space:
		case c == '\\' && quote != '\'' && i+1 < len(line):
			i++
			word = append(word, line[i])
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		case quote == c:
			quote = 0
		default:
			word = append(word, c)
		}
		begun = !space
	}
	words = append(words, string(word))
	return words[1:]
}
