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

// KindToken is the kind of document of a Token.
const KindToken = "token"

// TokenPrefix is the beginning of every token.
const TokenPrefix = "ps_"

// Token is the stored part of a token. The secret is shown once, when the token is created, and not stored.
type Token struct {
	ID  string `json:"id"`
	App string `json:"app,omitempty"` // empty for operators
	// Digest is the SHA-256 of its secret, in hex.
	Digest  audit.Digest `json:"digest"`
	Grants  []Grant      `json:"grants"`
	Created time.Time    `json:"created"`
	Expires time.Time    `json:"expires,omitzero"` // zero means never
	// Creator is the authenticated name of its creator.
	Creator string `json:"creator,omitempty"`
	Note    string `json:"note,omitempty"`
	// ReplacedBy is the id of the token that replaced it in a rotation.
	ReplacedBy string `json:"replaced_by,omitempty"`
	// SessionOf is the token id, or the subject name, that a session belongs to.
	SessionOf string `json:"session_of,omitempty"`
	// AppCreated is App.Created of its app.
	AppCreated time.Time `json:"app_created,omitzero"`
	// LastUsed is the day of its last known use; zero means never. It is set when the token is read.
	LastUsed time.Time `json:"-"`
	// Revision is the revision of the document. It is set when the document is read.
	Revision int64 `json:"-"`
}

// String returns the token's id, without its secret or digest.
func (t Token) String() string { return "token " + t.ID }

// GoString is String, so that %#v does not show the digest either.
func (t Token) GoString() string { return t.String() }

// The shape of a token: ps_ID_SECRETCHECK.
const (
	idChars     = "abcdefghijklmnopqrstuvwxyz0123456789"
	secretChars = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	idLength    = 12
	secretBytes = 32
	// 62^secretLength is just above 256^secretBytes.
	secretLength = 43
	checkLength  = 6
	tokenLength  = len(TokenPrefix) + idLength + 1 + secretLength + checkLength
	secretAt     = len(TokenPrefix) + idLength + 1
)

// isTokenID reports whether a text has the form of a token's id.
func isTokenID(text string) bool { return len(text) == idLength && only(text, idChars) }

// NewToken returns a new token: the secret for its holder, and the part to store. The caller sets App, Grants and the
// rest.
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

// tokenOf returns the part of a well-formed token to store. Its error is that of ParseToken.
func tokenOf(secret string) (t Token, err error) {
	id, p, err := parseToken(secret)
	if err != nil {
		return Token{}, err
	}
	return Token{ID: id, Digest: audit.Digest(hex.EncodeToString(p[:]))}, nil
}

func newID(random []byte) string {
	id := make([]byte, len(random))
	for i, b := range random { // 256 is not a multiple of 36; the bias costs a fraction of a bit of 62
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

// checksum returns the CRC-32 of the text before it. It detects typing errors; it is no protection.
func checksum(text []byte) (check [checkLength]byte) {
	sum := crc32.ChecksumIEEE(text)
	for i := checkLength - 1; i >= 0; i-- {
		check[i] = secretChars[sum%uint32(len(secretChars))]
		sum /= uint32(len(secretChars))
	}
	return check
}

// proof is the digest by which a token is verified.
type proof [sha256.Size]byte

// equal compares in constant time.
func (p *proof) equal(other *proof) bool { return subtle.ConstantTimeCompare(p[:], other[:]) == 1 }

// ParseToken checks that a text is a well-formed token and returns its id. It does not check that the token exists. Its
// error is a *Refusal with the code Mistyped, without any part of the text.
func ParseToken(text string) (id string, err error) {
	id, _, err = parseToken(text)
	return id, err
}

func parseToken(text string) (id string, p proof, err error) {
	if len(text) != tokenLength || !strings.HasPrefix(text, TokenPrefix) || text[secretAt-1] != '_' {
		return "", p, refuse(Mistyped, "it is not a token of Penstock, which begins with "+TokenPrefix+" and has "+
			fmt.Sprint(tokenLength)+" characters")
	}
	body := []byte(text[:tokenLength-checkLength])
	id = text[len(TokenPrefix) : secretAt-1]
	check := checksum(body)
	if !only(id, idChars) || string(check[:]) != text[len(body):] {
		return "", p, refuse(Mistyped, "its checksum is wrong: a character is missing or wrong")
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

// validate checks a new token of an app; a nil app is the operator.
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

// proofOf decodes a stored digest.
func proofOf(d audit.Digest) (p proof, err error) {
	if n, err := hex.Decode(p[:], []byte(d[:min(len(d), 2*len(p))])); err != nil || n != len(p) {
		return p, fmt.Errorf("%w: a digest cannot be read", queue.ErrCorrupt)
	}
	return p, nil
}

// Mask returns what the audit log may show of a document: a token without its digest. It is the Mask of an engine's
// Options.
func Mask(kind string, text []byte) []byte {
	if kind != KindToken {
		return text
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil {
		return []byte("{}") // unreadable, so show nothing
	}
	delete(fields, "digest")
	masked, err := json.Marshal(fields)
	if err != nil {
		return []byte("{}")
	}
	return masked
}
