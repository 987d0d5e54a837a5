package main

import (
	"fmt"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, in Go's names.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// suffix returns the name of a program's file without the program's name.
func (p platform) suffix() string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// allPlatforms are the platforms of a release.
var allPlatforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"},
}

// program is a command of the main module.
type program struct {
	name, about string
	dir         string // its package, relative to the root
	imageOnly   bool   // only images have it
}

// programs are the commands of a release. The order is that of the progress report.
var programs = []program{
	{"penstock", "operator's tool, and server in one process", "./cmd/penstock", false},
	{"ingress", "accepts jobs over HTTP", "./cmd/ingress", false},
	{"drainer", "delivers jobs at the rate of their queue", "./cmd/drainer", false},
	{"probe", "health check for containers without a shell", "./deploy/probe", true},
}

// parsePlatforms returns the platforms of a list, in the order of allPlatforms. An empty list means all.
func parsePlatforms(list string) ([]platform, error) {
	if list == "" {
		return allPlatforms, nil
	}
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(allPlatforms, func(p platform) bool { return p.String() == name }) {
			return nil, fmt.Errorf("unknown platform %q; use some of %v", name, allPlatforms)
		}
	}
	var chosen []platform
	for _, p := range allPlatforms {
		if slices.Contains(wanted, p.String()) {
			chosen = append(chosen, p)
		}
	}
	return chosen, nil
}
