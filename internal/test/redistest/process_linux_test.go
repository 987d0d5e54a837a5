package redistest_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/penstock/penstock/internal/test/redistest"
)

const orphanEnv = "REDISTEST_START_AND_HANG"

func TestServerDiesWithATestThatDoesNotCleanUp(t *testing.T) {
	if os.Getenv(orphanEnv) != "" {
		s := redistest.New(t, redistest.Options{})
		fmt.Println(s.PID(), s.Dir())
		select {} // until killed
	}
	parent := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	number, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	pid, err := strconv.Atoi(number)
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed"

	for deadline := time.Now().Add(5 * time.Second); running(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("redis-server %d outlived the test that started it", pid)
		}
	}
}

// running says whether pid runs; one that has ended and waits to be reaped by init does not.
func running(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
