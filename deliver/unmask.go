package deliver

import (
	stdjson "encoding/json"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
)

// Unmask is secrets.Unmask for a setting that is to be put in the place of the stored one. A secret is kept only for
// the host and port that it was given for, and on a way as safe as before: otherwise who may change a queue, and not
// see its secrets, could have them sent to himself. Its error is an *invalid.Error.
func Unmask(raw, stored stdjson.RawMessage) (stdjson.RawMessage, error) {
	unmasked, err := secrets.Unmask(raw, stored)
	if err != nil || !secrets.Masked(raw) {
		return unmasked, err
	}
	next, err := Parse(unmasked)
	if err != nil {
		return unmasked, nil // it is told to who puts it, or is a program's own
	}
	hosted, ok := next.Setting.(setting.Hosted)
	if !ok {
		return unmasked, nil
	}
	old, _ := Parse(stored) // one that cannot be used is none
	if field, reason := hosted.Exposes(old.Setting); reason != "" {
		return nil, setting.Error(
			"deliver."+next.Kind+"."+field, "",
			reason+", and "+secrets.Hidden+" would send it a secret that was not given for it; give the secrets themselves",
		)
	}
	return unmasked, nil
}
