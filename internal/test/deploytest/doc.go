// Package deploytest checks the files of deploy/ where no container engine and no systemd runs: they are read by the
// parsers of the programs that they are for (see readers), flags and variables in them are put to the programs'
// own command lines, and what compose.yaml would start is started as processes of this machine.
//
// Each check takes the files as text, so that a broken copy of them shows that it can fail: broken_test.go does.
package deploytest
