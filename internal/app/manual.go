package app

import (
	"io"

	"github.com/alecthomas/kong"
)

// Manual returns the command lines of ingress and drainer. Their manual pages are generated from them.
func Manual() ([]*kong.Application, error) {
	var all []*kong.Application
	for _, p := range []struct {
		name, about string
		flags       any
		vars        kong.Vars
	}{
		{"ingress", ingressAbout, &ingressFlags{}, ingressVars()},
		{"drainer", drainerAbout, &drainerFlags{}, drainerVars()},
	} {
		parser, err := newParser(p.flags, p.name, p.about, io.Discard, io.Discard, p.vars, func(int) {})
		if err != nil {
			return nil, err
		}
		all = append(all, parser.Model)
	}
	return all, nil
}
