package command

import (
	"time"

	"github.com/penstock/penstock/internal/cli/show"
	"github.com/penstock/penstock/internal/wire"
)

// TroubleText describes a problem: since when it exists, and its reason. It is not escaped.
func TroubleText(t *wire.Trouble, now time.Time) string {
	text := t.Text
	if t.Since != nil {
		text += " for " + show.Duration(now.Sub(*t.Since).Round(time.Second))
	}
	if t.Reason != "" {
		text += ": " + t.Reason
	}
	return text
}
