package drain

import (
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// timerfd is an alarm that the runtime polls like a socket. The runtime wakes at once when a polled file is ready, but
// waits in whole milliseconds for its own timers.
type timerfd struct {
	file *os.File
	raw  syscall.RawConn
	buf  [8]byte
}

func newAlarm() (alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &timerfd{file: os.NewFile(uintptr(fd), "timerfd")}
	if t.raw, err = t.file.SyscallConn(); err != nil {
		_ = t.file.Close()
		return nil, err
	}
	return t, nil
}

func (t *timerfd) set(d time.Duration) error {
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(d, 1)))} // zero would disarm it
	var failed error
	err := t.raw.Control(func(fd uintptr) { failed = unix.TimerfdSettime(int(fd), 0, &spec, nil) })
	if err != nil {
		return err
	}
	return failed
}

func (t *timerfd) wait() error {
	_, err := t.file.Read(t.buf[:])
	return err
}

func (t *timerfd) close() error { return t.file.Close() }
