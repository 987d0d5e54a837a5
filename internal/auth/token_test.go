package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestNewTokenParses(t *testing.T) {
	seen := map[string]bool{}
	for range 200 {
		secret, made := NewToken()
		if len(secret) != tokenLength || seen[secret] || seen[made.ID] {
			t.Fatalf("%d characters, id %s", len(secret), made.ID)
		}
		seen[secret], seen[made.ID] = true, true
		id, p, err := parseToken(secret)
		if err != nil || id != made.ID || fmt.Sprintf("%x", p) != string(made.Digest) {
			t.Fatalf("id %q, digest %x, error %v; made %+v", id, p, err, made.ID)
		}
		for _, shown := range []string{fmt.Sprint(made), fmt.Sprintf("%+v %#v %s", made, made, &made)} {
			if strings.Contains(shown, string(made.Digest)) || strings.Contains(shown, secret[secretAt:]) {
				t.Fatalf("shows more than its id: %s", shown)
			}
		}
	}
}

// TestMistypedTokens: every character that is changed, left out, doubled or changed places with the next is told.
func TestMistypedTokens(t *testing.T) {
	secret, _ := NewToken()
	wrong := []string{
		"", "ps_", secret + secret, secret + " ", " " + secret, secret + "\n", secret[:len(secret)-1],
		strings.ToUpper(secret), strings.ToLower(secret), "pt" + secret[2:], strings.Repeat("a", 1<<20),
		secret + strings.Repeat("a", 1<<20), strings.Replace(secret, "_", "-", 1), "ps_" + strings.Repeat("\u0430", 31),
	}
	for i := range secret {
		other := byte('x')
		if secret[i] == other {
			other = 'y'
		}
		wrong = append(wrong, secret[:i]+string(other)+secret[i+1:], secret[:i]+secret[i+1:],
			secret[:i]+secret[i:i+1]+secret[i:])
		if i > 0 && secret[i] != secret[i-1] {
			wrong = append(wrong, secret[:i-1]+secret[i:i+1]+secret[i-1:i]+secret[i+1:])
		}
	}
	for _, text := range wrong {
		_, err := ParseToken(text)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != Mistyped {
			t.Fatalf("%.80q: %v", text, err)
		}
		if len(text) > 20 && strings.Contains(err.Error(), text[15:20]) {
			t.Fatalf("the error shows some of it: %v", err)
		}
	}
}

func TestParsingCostsLittle(t *testing.T) {
	secret, _ := NewToken()
	long := strings.Repeat("a", 1<<20)
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseToken(secret) }); n > 1 {
		t.Errorf("a right one: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = ParseToken(long) }); n > 3 {
		t.Errorf("a long one: %v allocations", n)
	}
}

func TestMask(t *testing.T) {
	_, made := NewToken()
	made.Note = "worker"
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	masked := Mask(KindToken, text)
	if strings.Contains(string(masked), string(made.Digest)) || !strings.Contains(string(masked), `"note":"worker"`) {
		t.Errorf("%s", masked)
	}
	if string(Mask(KindToken, []byte(`"`+string(made.Digest)+`"`))) != "{}" {
		t.Error("what is no token is shown")
	}
	if string(Mask(KindApp, []byte("{ }"))) != "{ }" {
		t.Error("an app is not shown as it is")
	}
}
