package app

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/alecthomas/kong"
)

// longHelper is a struct of flags and commands with help that is too long for a tag.
type longHelper interface {
	// LongHelp returns the help by the name of the flag or command, in the syntax of a tag.
	LongHelp() map[string]string
}

// SetLongHelp sets the help of flags and commands from the LongHelp of their structs, after the parser is built.
func SetLongHelp(k *kong.Kong) error { return setLongHelp(k.Model.Node) }

func setLongHelp(node *kong.Node) error {
	for name, help := range longHelpOf(node.Target) {
		flag := slices.IndexFunc(node.Flags, func(f *kong.Flag) bool { return f.Name == name })
		command := slices.IndexFunc(node.Children, func(n *kong.Node) bool { return n.Name == name })
		switch {
		case flag >= 0:
			node.Flags[flag].Help, node.Flags[flag].OrigHelp = help, help
		case command >= 0:
			node.Children[command].Help = help
		default:
			return fmt.Errorf("%s has help for %s, but no such flag or command", node.Path(), name)
		}
	}
	for _, child := range node.Children {
		if err := setLongHelp(child); err != nil {
			return err
		}
	}
	return nil
}

// longHelpOf returns the long help of a struct and of the structs embedded in it.
func longHelpOf(v reflect.Value) map[string]string {
	all := map[string]string{}
	if v.Kind() != reflect.Struct {
		return all
	}
	for i := range v.NumField() {
		if v.Type().Field(i).Anonymous {
			maps.Copy(all, longHelpOf(v.Field(i)))
		}
	}
	if h, ok := reflect.New(v.Type()).Interface().(longHelper); ok {
		maps.Copy(all, h.LongHelp())
	}
	return all
}
