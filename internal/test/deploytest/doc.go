// Package deploytest checks the files of deploy/ without a container engine or systemd. The parsers of the programs
// that the files are for read them (see readers). Flags and variables in them are parsed by the programs' own command
// lines. The services in compose.yaml are started as processes of this machine.
//
// Each check takes the files as text. So broken_test.go can break a copy of them and show that the check fails.
package deploytest
