package command

import "errors"

// maxTokenID is longer than an id, and shorter than a token.
const maxTokenID = 32

// TokenID returns the id of a token. It refuses a whole token, which must not be sent or shown in place of its id.
func TokenID(given string) (string, error) {
	if len(given) > maxTokenID {
		return "", Usage(errors.New("this is not an id: give the part between ps_ and the next _. If it is a whole token, " +
			"others on this machine may have seen it: replace it with \"penstock token rotate\""))
	}
	return given, nil
}
