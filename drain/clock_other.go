//go:build !linux

package drain

import "errors"

// Elsewhere the runtime's timers are as precise as the system's.
func newAlarm() (alarm, error) { return nil, errors.ErrUnsupported }
