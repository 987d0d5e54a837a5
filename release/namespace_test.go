//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// socket is the API in a container of the image penstock.
const socket = "unix:///data/penstock.sock"

// insideVar makes this program the first process in new namespaces. Its value is the folder of the unpacked image.
const insideVar = "PENSTOCK_RELEASE_INSIDE"

func TestMain(m *testing.M) {
	if root := os.Getenv(insideVar); root != "" {
		if err := inside(root, strings.Fields(os.Getenv("PENSTOCK_RELEASE_ENV"))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	var err error
	if work, err = os.MkdirTemp("", "penstock-release-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(work); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runInside calls inside in namespaces of its own: no mounts, processes, networks or users of this machine.
func runInside(t *testing.T, root string, env []string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = []string{insideVar + "=" + root, "PENSTOCK_RELEASE_ENV=" + strings.Join(env, " ")}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWUTS,
		Pdeathsig: syscall.SIGKILL,
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the image does not run: %v (this test needs root, for namespaces)\n%s", err, out)
	}
	return string(out)
}

// inside runs programs of the image as its user, with the image as their root. The only network is loopback.
func inside(root string, env []string) error {
	if err := loopbackUp(); err != nil {
		return fmt.Errorf("loopback: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	program := func(args ...string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/data", os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Chroot: root, Credential: &syscall.Credential{Uid: imageUser, Gid: imageUser},
		}
		return cmd
	}
	if err := program("/usr/bin/penstock", "version").Run(); err != nil {
		return fmt.Errorf("penstock version: %w", err)
	}
	up := program("/usr/bin/penstock", "up", "--data=/data")
	if err := up.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- up.Wait() }()
	for !ready(ctx) {
		select {
		case err := <-ended:
			return fmt.Errorf("penstock up ended: %w", errors.Join(err, ctx.Err()))
		case <-time.After(50 * time.Millisecond):
		}
	}
	fmt.Println("healthy")
	if err := program("/usr/bin/penstock", "-s", socket, "whoami").Run(); err != nil {
		return fmt.Errorf("penstock whoami, for health checks: %w", err)
	}
	if err := program("/usr/bin/penstock", "-s", socket, "queue", "set", "email", "rate=5/s",
		"limits.0.quota=10/d", "limits.0.timezone=Europe/Berlin").Run(); err != nil {
		return fmt.Errorf("penstock queue set: %w", err)
	}
	if err := up.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := <-ended; err != nil {
		return fmt.Errorf("penstock up after SIGTERM: %w", err)
	}
	fmt.Println("stopped")
	return nil
}

// ready reports whether the server in this network namespace answers /readyz with 200.
func ready(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:8080/readyz", nil)
	if err != nil {
		return false
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// loopbackUp turns on the loopback interface, which is down in a new network namespace.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, request); err != nil {
		return err
	}
	request.SetUint16(request.Uint16() | unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request)
}
