// Package check has what every engine checks of a call before it does anything.
package check

import (
	"fmt"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/invalid"
	"github.com/penstock/penstock/queue/names"
)

// Decision checks what Decide is told. Its error is an *invalid.Error.
func Decision(ids []string, v queue.Verdict, reason string) error {
	if err := IDs(ids); err != nil {
		return err
	}
	if v != queue.Deliver && v != queue.Bury && v != queue.Release {
		return invalid.Errorf("verdict", "", "is none of deliver, bury, release")
	}
	if len(reason) > queue.MaxReasonBytes {
		return invalid.Errorf("reason", "", "has %d bytes, the limit is %d", len(reason), queue.MaxReasonBytes)
	}
	return nil
}

// IDs checks the ids of a Replay or a Forget. Its error is an *invalid.Error.
func IDs(ids []string) error {
	if len(ids) > queue.MaxPage {
		return invalid.Errorf("ids", "", "are %d, the limit is %d", len(ids), queue.MaxPage)
	}
	for i, id := range ids {
		if err := names.ValidateID(id); err != nil {
			return invalid.Errorf(fmt.Sprintf("ids[%d]", i), id, "is not an id")
		}
	}
	return nil
}

// TooManyChildren is the *invalid.Error of a child that is one too many.
func TooManyChildren(name string) error {
	return invalid.Errorf(
		"name", name, "%s has %d children, the most that a queue can have",
		names.Parent(name), queue.MaxChildren,
	)
}
