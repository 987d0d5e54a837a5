package deliver

import (
	stdjson "encoding/json"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
)

// Unmask is secrets.Unmask for a setting that replaces the stored one. A secret is kept only for the host and port that
// it was given for, and only if the connection is as secure as before. Otherwise a client that may change a queue, but
// not see its secrets, could have them sent to a host of its own. Its error is an *invalid.Error.
func Unmask(raw, stored stdjson.RawMessage) (stdjson.RawMessage, error) {
	unmasked, err := secrets.Unmask(raw, stored)
	if err != nil || !secrets.Masked(raw) {
		return unmasked, err
	}
	next, err := Parse(unmasked)
	if err != nil {
		return unmasked, nil // invalid, which the put reports, or of a program's own kind
	}
	hosted, ok := next.Setting.(setting.Hosted)
	if !ok {
		return unmasked, nil
	}
	old, _ := Parse(stored) // an invalid setting has no hosts
	if field, reason := hosted.Exposes(old.Setting); reason != "" {
		return nil, setting.Error(
			"deliver."+next.Kind+"."+field, "",
			reason+", and "+secrets.Hidden+" would send it a secret that was given for another host; give the secrets again",
		)
	}
	return unmasked, nil
}
