package clients

import (
	"os"
	"os/exec"
	"testing"
)

// The clients' own tests, in the runners of their languages, with the program that their smoke tests start.
func TestUnits(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range []struct {
		name, dir string
		command   func(t *testing.T) []string
	}{
		{"typescript", "typescript", func(t *testing.T) []string {
			typescriptDriver(t)
			return []string{program(t, "npm"), "test"}
		}},
		{"python", "python", func(t *testing.T) []string {
			return []string{program(t, "python3"), "-m", "unittest", "discover", "-s", "tests"}
		}},
		{"penstocktest", "../penstocktest", func(t *testing.T) []string {
			return []string{program(t, "go"), "test", "-trimpath", "-count=1", "."}
		}},
	} {
		t.Run(u.name, func(t *testing.T) {
			command := u.command(t)
			c := exec.Command(command[0], command[1:]...)
			c.Dir, c.Env = u.dir, append(os.Environ(), "PENSTOCK_BIN="+path)
			text, err := c.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %v\n%s", command, err, text)
			}
		})
	}
}
