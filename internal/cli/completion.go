package cli

import (
	_ "embed"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/penstock/penstock/internal/cli/command"
)

type completionCmd struct {
	Shell string `arg:"" help:"Shell: ${enum}." enum:"bash,zsh,fish"`
}

func (completionCmd) Help() string {
	return `The script completes commands, flags, their values and names, such as queues. For names it
asks the server, and gives up after half a second.

Examples, for every new shell:
  penstock completion bash > ~/.local/share/bash-completion/completions/penstock
  penstock completion zsh > "${fpath[1]}/_penstock"
  penstock completion fish > ~/.config/fish/completions/penstock.fish

For this shell only:
  source <(penstock completion bash)
  source <(penstock completion zsh)
  penstock completion fish | source`
}

// The scripts call "penstock complete" for every word, so they need no change when commands change.
var (
	//go:embed completion.bash
	completionBash string
	//go:embed completion.zsh
	completionZsh string
	//go:embed completion.fish
	completionFish string
)

func (c *completionCmd) Run(r *command.Run) error {
	script := map[string]string{"bash": completionBash, "zsh": completionZsh, "fish": completionFish}[c.Shell]
	_, err := io.WriteString(r.Out, script)
	return err
}

// completeCmd is called by the completion scripts. It completes the last word; bash passes the line up to the cursor
// instead. It prints one candidate per line, followed by a tab and its help except for bash, or ":files" where a file
// name is expected.
type completeCmd struct {
	command.Connection
	Shell string   `arg:"" enum:"bash,zsh,fish"`
	Words []string `arg:"" optional:""`
}

// Run never fails on invalid words: the user is still typing.
func (c *completeCmd) Run(r *command.Run, k *kong.Context) error {
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
	// Bash splits words at these characters, and replaces the text behind the last one.
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

// split splits a line into words as a shell does, without expansions, and drops the program's name. The last word may
// be empty.
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
