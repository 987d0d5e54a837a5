package api

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Who computes one replay waits with the next, and takes no other tenant's place.
func TestReplayPlacesAreShared(t *testing.T) {
	places := newReplayPlaces(2)
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	leave, err := places.enter(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := places.enter(soon, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second place of one tenant: %v", err)
	}
	other, err := places.enter(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := places.enter(soon, "c"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a third place: %v", err)
	}
	other()
	leave()
	for range 2 { // those who are not told apart have all
		if leave, err = places.enter(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
		defer leave()
	}
}
