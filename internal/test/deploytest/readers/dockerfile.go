package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stage is a stage of a Dockerfile.
type stage struct {
	Name, Base, Platform string
	// Commands are its instructions, in order.
	Commands []command
}

// command is an instruction: its name, and its text without the name on one line.
type command struct {
	Name, Text string
	// Shell means that a shell runs the RUN, CMD, ENTRYPOINT or HEALTHCHECK.
	Shell bool
}

func dockerfile(text []byte) (any, error) {
	file, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	if len(file.Warnings) > 0 {
		return nil, fmt.Errorf("%s", file.Warnings[0].Short)
	}
	parsed, _, err := instructions.Parse(file.AST, nil)
	if err != nil {
		return nil, err
	}
	var stages []stage
	for _, s := range parsed {
		read := stage{Name: s.Name, Base: s.BaseName, Platform: s.Platform}
		for _, c := range s.Commands {
			read.Commands = append(read.Commands, command{Name: strings.ToUpper(c.Name()), Text: oneLine(c), Shell: byShell(c)})
		}
		stages = append(stages, read)
	}
	return stages, nil
}

func oneLine(c instructions.Command) string {
	text := strings.ReplaceAll(fmt.Sprint(c), "\\\n", " ")
	_, rest, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " ")
	return rest
}

func byShell(c instructions.Command) bool {
	switch c := c.(type) {
	case *instructions.RunCommand:
		return c.PrependShell
	case *instructions.CmdCommand:
		return c.PrependShell
	case *instructions.EntrypointCommand:
		return c.PrependShell
	case *instructions.HealthCheckCommand:
		return len(c.Health.Test) > 0 && c.Health.Test[0] == "CMD-SHELL"
	}
	return false
}
