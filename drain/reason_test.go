package drain

import (
	"errors"
	"testing"
)

func TestReasonHasNoSecretsOfURLs(t *testing.T) {
	for text, want := range map[string]string{
		`Post "https://a.example/send?key=hunter2&n=1": EOF`: `Post "https://a.example/send?***": EOF`,
		`dial http://user:hunter2@a.example/x failed`:        `dial http://***@a.example/x failed`,
		`see https://a.example/docs, or ask? no`:             `see https://a.example/docs, or ask? no`,
		`421 later`:                                          `421 later`,
	} {
		if got := reason(errors.New(text)); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
