package smalldisk

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// within is set in the process with the disk.
const within = "PENSTOCK_TEST_SMALL_DISK"

// Run runs a function with an empty disk of that many bytes. It does so in another process, which runs only this test.
// So a test without subtests must call it first, and do nothing after it.
func Run(t *testing.T, bytes int64, what func(t *testing.T, dir string)) {
	t.Helper()
	if os.Getenv(within) == t.Name() {
		dir := t.TempDir()
		if err := syscall.Mount("penstock-test", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
			t.Fatalf("mounting a tmpfs: %v", err)
		}
		t.Cleanup(func() {
			if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		what(t, dir)
		return
	}
	out, err := again(t)
	var exit *exec.ExitError
	switch {
	// of clone: not allowed, none left, none here
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EINVAL):
		t.Skipf(
			"no disk can be filled here: this user may neither mount a tmpfs nor create a namespace that allows it: %v",
			err,
		)
	case errors.As(err, &exit):
		t.Errorf("with a small disk: %v\n%s", err, out)
	case err != nil:
		t.Fatal(err)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()+" "):
		t.Errorf("it did not run with a small disk:\n%s", out)
	default:
		t.Logf("with a small disk:\n%s", out)
	}
}

// again runs the test in a mount namespace of its own, and in a user namespace if that is needed.
func again(t *testing.T) (out []byte, err error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	root := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	group := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	for _, attr := range []*syscall.SysProcAttr{
		{Cloneflags: syscall.CLONE_NEWNS},
		{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER, UidMappings: root, GidMappings: group},
	} {
		cmd := exec.CommandContext(
			t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=3m",
		)
		cmd.Env = append(os.Environ(), within+"="+t.Name())
		cmd.SysProcAttr = attr
		if out, err = cmd.CombinedOutput(); !errors.Is(err, syscall.EPERM) {
			return out, err
		}
	}
	return nil, err
}
