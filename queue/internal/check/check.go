// Package check has what every engine checks of a call before it does anything.
package check

import (
	"fmt"

	"github.com/penstock/penstock/queue"
)

// Decision checks what Decide is told. Its error is a *FieldError.
func Decision(ids []string, v queue.Verdict, reason string) error {
	if err := IDs(ids); err != nil {
		return err
	}
	if v != queue.Deliver && v != queue.Bury && v != queue.Release {
		return queue.FieldErrorf("verdict", "", "is none of deliver, bury, release")
	}
	if len(reason) > queue.MaxReasonBytes {
		return queue.FieldErrorf("reason", "", "has %d bytes, the limit is %d", len(reason), queue.MaxReasonBytes)
	}
	return nil
}

// IDs checks the ids of a Replay or a Forget. Its error is a *FieldError.
func IDs(ids []string) error {
	if len(ids) > queue.MaxPage {
		return queue.FieldErrorf("ids", "", "are %d, the limit is %d", len(ids), queue.MaxPage)
	}
	for i, id := range ids {
		if err := queue.ValidateID(id); err != nil {
			return queue.FieldErrorf(fmt.Sprintf("ids[%d]", i), id, "is not an id")
		}
	}
	return nil
}

// TooManyChildren is the *FieldError of a child that is one too many.
func TooManyChildren(name string) error {
	return queue.FieldErrorf(
		"name", name, "%s has %d children, the most that a queue can have",
		queue.Parent(name), queue.MaxChildren,
	)
}
