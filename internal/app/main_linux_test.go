package app

import (
	"bufio"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/pty"
	"github.com/penstock/penstock/internal/test/redistest"
)

// Ctrl-C in a terminal ends an ingress at once. The same signal without a terminal, and SIGTERM with one, leave it the
// time of its --drain-delay.
func TestCtrlCSkipsDrainDelay(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	for name, c := range map[string]struct {
		end        func(t *testing.T, cmd *exec.Cmd)
		atTerminal bool
		drains     bool
	}{
		"Ctrl-C at a terminal":       {nil, true, false},
		"SIGTERM at a terminal":      {func(t *testing.T, cmd *exec.Cmd) { kill(t, cmd, syscall.SIGTERM) }, true, true},
		"SIGINT without a terminal":  {func(t *testing.T, cmd *exec.Cmd) { kill(t, cmd, syscall.SIGINT) }, false, true},
		"SIGTERM without a terminal": {func(t *testing.T, cmd *exec.Cmd) { kill(t, cmd, syscall.SIGTERM) }, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := program(t, "ingress", "--redis", server.URL(), "--init", "--listen", "127.0.0.1:0", "--drain-delay", "1h")
			logs, err := cmd.StderrPipe()
			if err != nil {
				t.Fatal(err)
			}
			end := c.end
			if c.atTerminal {
				person, tty := pty.Open(t)
				cmd.Stdin = tty
				cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // of its standard input
				if end == nil {
					end = func(t *testing.T, _ *exec.Cmd) {
						if _, err := person.WriteString("\x03"); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			hung := time.AfterFunc(30*time.Second, func() { _ = cmd.Process.Kill() })
			defer hung.Stop()
			said, drains, ended := bufio.NewScanner(logs), false, false
			for said.Scan() {
				switch line := said.Text(); {
				case strings.Contains(line, "ingress listens"):
					end(t, cmd)
				case strings.Contains(line, "ingress drains"):
					drains = true
					_ = cmd.Process.Kill()
				case strings.Contains(line, "ingress stopped"):
					ended = true
				}
			}
			err = cmd.Wait()
			if drains != c.drains || ended == c.drains || !c.drains && err != nil {
				t.Errorf("it drains: %v, it ended by itself: %v, with %v", drains, ended, err)
			}
		})
	}
}

func kill(t *testing.T, cmd *exec.Cmd, s syscall.Signal) {
	t.Helper()
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}
