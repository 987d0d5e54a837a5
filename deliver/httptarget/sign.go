package httptarget

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/penstock/penstock/deliver/secrets"
	"github.com/penstock/penstock/deliver/setting"
)

// Headers of a signature.
const (
	headerWebhookID        = "Webhook-Id"
	headerWebhookTimestamp = "Webhook-Timestamp"
	headerWebhookSignature = "Webhook-Signature"
)

const (
	keyPrefix   = "whsec_"
	minKeyBytes = 24
	maxKeyBytes = 64
)

// Signing signs requests with HMAC-SHA256, by Standard Webhooks 1.0 (https://www.standardwebhooks.com). While Previous
// is set there are two signatures, so that the receiver can change its key at any time.
type Signing struct {
	Secret   string `json:"secret"` // whsec_ and the key in base64
	Previous string `json:"previous_secret,omitempty"`
}

// check checks the keys. references allows references to secrets, which are not resolved yet.
func (s *Signing) check(at string, references bool) error {
	if s == nil {
		return nil
	}
	if s.Secret == "" {
		return setting.Error(at+".secret", "", `is missing; write "whsec_" and the key in base64, or ${secret:NAME}`)
	}
	if !isKey(s.Secret, references) {
		return notAKey(at + ".secret")
	}
	if s.Previous != "" && !isKey(s.Previous, references) {
		return notAKey(at + ".previous_secret")
	}
	return nil
}

func notAKey(at string) error {
	return setting.Error(at, "", `must be "whsec_" and a key of 24 to 64 bytes in base64, or ${secret:NAME}`)
}

// isKey reports whether a text is a key, or a reference to a secret with one.
func isKey(text string, references bool) bool {
	if references && strings.Contains(text, "${") {
		return secrets.IsReference(text)
	}
	_, ok := signingKey(text)
	return ok
}

func signingKey(text string) ([]byte, bool) {
	encoded, ok := strings.CutPrefix(text, keyPrefix)
	key, err := base64.StdEncoding.DecodeString(encoded)
	return key, ok && err == nil && len(key) >= minKeyBytes && len(key) <= maxKeyBytes
}

// sign adds the headers of a signature. The ID is the same in each attempt, the time is not.
func (s *Signing) sign(h http.Header, id string, at time.Time, payload []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	var signatures []string
	for _, secret := range []string{s.Secret, s.Previous} {
		if key, ok := signingKey(secret); ok {
			signatures = append(signatures, signature(key, id, stamp, payload))
		}
	}
	h.Set(headerWebhookID, id)
	h.Set(headerWebhookTimestamp, stamp)
	h.Set(headerWebhookSignature, strings.Join(signatures, " "))
}

func signature(key []byte, id, stamp string, payload []byte) string {
	mac := hmac.New(sha256.New, key)
	_, _ = mac.Write([]byte(id + "." + stamp + "."))
	_, _ = mac.Write(payload)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
