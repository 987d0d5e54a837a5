package command

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Confirmation is the --yes flag of commands that ask before something is lost.
type Confirmation struct {
	Yes bool `help:"Do not ask for confirmation." short:"y"`
}

// Confirm asks the user to type word, usually the name of the queue. loss says what will be lost. With --yes it does
// not ask.
func (c Confirmation) Confirm(r *Run, word, loss string) error {
	if c.Yes {
		return nil
	}
	if f, ok := r.In.(*os.File); ok {
		if _, isTerminal := Width(f); !isTerminal {
			return Usage(fmt.Errorf("%s: standard input is not a terminal; use --yes to confirm", loss))
		}
	}
	_, _ = fmt.Fprintf(r.Err, "%s. Type %s to continue: ", loss, word)
	answer, _ := bufio.NewReader(r.In).ReadString('\n') // an empty answer is a no
	if strings.TrimSpace(answer) != word {
		return Fail(ExitRefused, errors.New("canceled; nothing was changed"))
	}
	return nil
}
