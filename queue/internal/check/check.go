// Package check has the checks that every engine makes before it carries out a call.
package check

import (
	"fmt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Decision checks the arguments of Decide. Its error is an *invalid.Error.
func Decision(ids []string, v queue.Verdict, reason string) error {
	if err := IDs(ids); err != nil {
		return err
	}
	if v != queue.Deliver && v != queue.Bury && v != queue.Release {
		return invalid.Errorf("verdict", "", "must be deliver, bury or release")
	}
	if len(reason) > queue.MaxReasonBytes {
		return invalid.Errorf("reason", "", "has %d bytes, the limit is %d", len(reason), queue.MaxReasonBytes)
	}
	return nil
}

// IDs checks the ids of a Replay or Forget. Its error is an *invalid.Error.
func IDs(ids []string) error {
	if len(ids) > queue.MaxPage {
		return invalid.Errorf("ids", "", "has %d entries, the limit is %d", len(ids), queue.MaxPage)
	}
	for i, id := range ids {
		if err := names.ValidateID(id); err != nil {
			return invalid.Errorf(fmt.Sprintf("ids[%d]", i), id, "is not an id")
		}
	}
	return nil
}

// TooManyChildren returns the *invalid.Error of a Put that exceeds queue.MaxChildren.
func TooManyChildren(name string) error {
	return invalid.Errorf(
		"name", name, "%s already has %d children, the maximum",
		names.Parent(name), queue.MaxChildren,
	)
}
