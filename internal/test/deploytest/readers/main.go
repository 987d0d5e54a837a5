// Readers parses files of deploy/ from standard input with the parsers of the programs that they are for, and prints
// the result as JSON. It prints what a parser refuses to standard error, and exits with 1.
//
//	readers compose [NAME=VALUE ...]   a compose file, with this environment
//	readers dockerfile                 a Dockerfile
//	readers promql                     a JSON array of expressions
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("want compose, dockerfile or promql")
	}
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var read any
	switch args[0] {
	case "compose":
		read, err = compose(text, args[1:])
	case "dockerfile":
		read, err = dockerfile(text)
	case "promql":
		read, err = promql(text)
	default:
		err = fmt.Errorf("no reader of %q", args[0])
	}
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(read)
}
