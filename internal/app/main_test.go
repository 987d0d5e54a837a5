package app

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/penstock/penstock/internal/test/redistest"
)

// asProgram makes the test binary one of the programs.
const asProgram = "APP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(asProgram); name != "" {
		os.Exit(Main(name, programs[name]))
	}
	// An ingress ends at once and asks nobody who he is, but where that is tested.
	for name, value := range map[string]string{"PENSTOCK_DRAIN_DELAY": "0", "PENSTOCK_NO_AUTH": "true"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func program(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"="+name)
	return cmd
}

func TestMainOfPrograms(t *testing.T) {
	server := redistest.New(t, redistest.Options{})
	for name := range programs {
		out, err := program(t, name, "--help").Output()
		if err != nil || !strings.Contains(string(out), "--redis") {
			t.Errorf("%s --help: %v, %s", name, err, out)
		}
		var failed *exec.ExitError
		if _, err := program(t, name, "--colour").Output(); !errors.As(err, &failed) || failed.ExitCode() != 2 ||
			!strings.HasPrefix(string(failed.Stderr), name+": ") {
			t.Errorf("%s with a flag that is none: %v, %+v", name, err, failed)
		}

		cmd := program(t, name, "--redis", server.URL(), "--init", "--listen", "127.0.0.1:0")
		logs, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := bufio.NewScanner(logs)
		for up := false; !up && said.Scan(); {
			up = strings.Contains(said.Text(), "url=")
		}
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for said.Scan() { // to its end, or Wait would cut it short
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s ends with %v after SIGTERM", name, err)
		}
	}
}
