package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math/big"
	"strings"
	"time"

	"github.com/penstock/penstock/queue"
	"github.com/penstock/penstock/queue/audit"
	"github.com/penstock/penstock/queue/invalid"
)

// KindToken is the kind of document that a Token is, by its id.
const KindToken = "token"

// TokenPrefix is what every token begins with.
const TokenPrefix = "ps_"

// Token is what is kept of one. What its holder has is shown once, when it is made, and kept nowhere.
type Token struct {
	ID  string `json:"id"`
	App string `json:"app,omitempty"` // empty is the operator's
	// Digest is the SHA-256 of its secret, in hex.
	Digest  audit.Digest `json:"digest"`
	Grants  []Grant      `json:"grants"`
	Created time.Time    `json:"created"`
	Expires time.Time    `json:"expires,omitzero"` // zero is never
	// Creator is the verified name of who made it.
	Creator string `json:"creator,omitempty"`
	Note    string `json:"note,omitempty"`
	// ReplacedBy is the id of the token that a rotation made in its place.
	ReplacedBy string `json:"replaced_by,omitempty"`
	// SessionOf is the id of the token, or the name of the subject, that it stands for if it is a session.
	SessionOf string `json:"session_of,omitempty"`
	// AppCreated is when its app was, see App.Created.
	AppCreated time.Time `json:"app_created,omitzero"`
	// LastUsed is the day on which it was used last, to which it is known; zero is never. It is set by what reads it.
	LastUsed time.Time `json:"-"`
	// Revision is that of its document, set by what reads it.
	Revision int64 `json:"-"`
}

// String names the token, and has nothing of its secret or digest.
func (t Token) String() string { return "token " + t.ID }

// GoString is String: %#v must not show the digest either.
func (t Token) GoString() string { return t.String() }

// The shape of a token: ps_ID_SECRETCHECK.
const (
	idChars     = "abcdefghijklmnopqrstuvwxyz0123456789"
	secretChars = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength    = 12
	secretBytes = 32
	// 62 to the power of these is just above 256 to that of the bytes.
	secretLength = 43
	checkLength  = 6
	tokenLength  = len(TokenPrefix) + idLength + 1 + secretLength + checkLength
	secretAt     = len(TokenPrefix) + idLength + 1
)

// isTokenID reports whether a text has the form of a token's id.
func isTokenID(text string) bool { return len(text) == idLength && only(text, idChars) }

// NewToken makes a token: what its holder has to keep, and what is stored of it, of which App, Grants and the rest are
// to be set.
func NewToken() (secret string, t Token) {
	random := make([]byte, secretBytes+idLength)
	_, _ = rand.Read(random) // it never fails
	t.ID = newID(random[secretBytes:])
	text := TokenPrefix + t.ID + "_" + base62(new(big.Int).SetBytes(random[:secretBytes]), secretLength)
	check := checksum([]byte(text))
	secret = text + string(check[:])
	digest := sha256.Sum256([]byte(text[secretAt:]))
	t.Digest = audit.Digest(hex.EncodeToString(digest[:]))
	return secret, t
}

func newID(random []byte) string {
	id := make([]byte, len(random))
	for i, b := range random { // 256 is no multiple of 36; of 62 bits that takes a fraction of one
		id[i] = idChars[int(b)%len(idChars)]
	}
	return string(id)
}

func base62(n *big.Int, length int) string {
	text := make([]byte, length)
	base, digit := big.NewInt(int64(len(secretChars))), new(big.Int)
	for i := length - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		text[i] = secretChars[digit.Int64()]
	}
	return string(text)
}

// checksum is the CRC-32 of what stands before it. It is there to tell what was mistyped, and keeps nobody out.
func checksum(text []byte) (check [checkLength]byte) {
	sum := crc32.ChecksumIEEE(text)
	for i := checkLength - 1; i >= 0; i-- {
		check[i] = secretChars[sum%uint32(len(secretChars))]
		sum /= uint32(len(secretChars))
	}
	return check
}

// proof is what a token proves itself with.
type proof [sha256.Size]byte

// equal takes the same time wherever they differ.
func (p *proof) equal(other *proof) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }

// ParseToken checks that a text is a token, without asking whether there is such a one, and returns its id. Its error
// is a *Refusal of Mistyped, which shows nothing of the text.
func ParseToken(text string) (id string, err error) {
	id, _, err = parseToken(text)
	return id, err
}

func parseToken(text string) (id string, p proof, err error) {
	if len(text) != tokenLength || !strings.HasPrefix(text, TokenPrefix) || text[secretAt-1] != '_' {
		return "", p, refuse(Mistyped, "it is no token of Penstock: those begin with "+TokenPrefix+" and have "+
			fmt.Sprint(tokenLength)+" characters")
	}
	body := []byte(text[:tokenLength-checkLength])
	id = text[len(TokenPrefix) : secretAt-1]
	check := checksum(body)
	if !only(id, idChars) || string(check[:]) != text[len(body):] {
		return "", p, refuse(Mistyped, "its checksum is wrong: a character is missing, or another than it was")
	}
	return id, sha256.Sum256(body[secretAt:]), nil
}

func only(text, chars string) bool {
	for i := range len(text) {
		if strings.IndexByte(chars, text[i]) < 0 {
			return false
		}
	}
	return true
}

// validate checks what is asked for in a new token of an app; nil is the operator.
func (t *Token) validate(app *App, now time.Time) error {
	if err := validateGrants(t.Grants, app); err != nil {
		return err
	}
	if err := validateExpires(t.Expires, now); err != nil {
		return err
	}
	return validateNote(t.Note)
}

func validateExpires(at, now time.Time) error {
	if at.IsZero() || at.After(now) {
		return nil
	}
	return &invalid.Error{Field: "expires", Value: at.Format(time.RFC3339), Reason: "has passed"}
}

// proofOf is what a kept digest is compared with.
func proofOf(d audit.Digest) (p proof, err error) {
	if n, err := hex.Decode(p[:], []byte(d[:min(len(d), 2*len(p))])); err != nil || n != len(p) {
		return p, fmt.Errorf("%w: a digest cannot be read", queue.ErrCorrupt)
	}
	return p, nil
}

// Mask is what the audit log may show of a document: of a token, nothing of what proves it. It is for the Mask of an
// engine's Options.
func Mask(kind string, text []byte) []byte {
	if kind != KindToken {
		return text
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return []byte("{}") // whatever it is
	}
	delete(fields, "digest")
	masked, err := json.Marshal(fields)
	if err != nil {
		return []byte("{}")
	}
	return masked
}
