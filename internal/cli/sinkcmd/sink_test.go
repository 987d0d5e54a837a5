package sinkcmd

import "testing"

func TestShare(t *testing.T) {
	for text, want := range map[string]share{"10%": 0.1, "0.1": 0.1, "0": 0, "100%": 1, "1": 1, "0.5%": 0.005} {
		var s share
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("%s parses as %v, %v", text, s, err)
		}
	}
}
