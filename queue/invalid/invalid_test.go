package invalid_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/penstock/penstock/queue/invalid"
)

func TestErrorsAreShort(t *testing.T) {
	err := invalid.Errorf("id", strings.Repeat("x", 1<<20), "is wrong")
	if len(err.Error()) > 200 || !strings.Contains(err.Error(), fmt.Sprint(1<<20, " bytes")) {
		t.Errorf("%d bytes: %.100s", len(err.Error()), err)
	}
	if got := invalid.Errorf("cost", "", "is 0").Error(); got != "cost: is 0" {
		t.Error(got)
	}
}
