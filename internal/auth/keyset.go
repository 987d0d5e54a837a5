package auth

import (
	"context"
	"crypto"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

var (
	errKeysOld        = errors.New("the keys of the provider are too old")
	errNotSigned      = errors.New("it is not signed with a key of the provider")
	errNoKeysFetch    = errors.New("an unknown key was fetched a moment ago")
	signingAlgorithms = func() (all []jose.SignatureAlgorithm) {
		for _, a := range algorithms {
			all = append(all, jose.SignatureAlgorithm(a))
		}
		return all
	}()
)

// keySet holds the keys of a provider. It implements oidc.KeySet.
//
// The library's RemoteKeySet does not fit. It keeps a withdrawn key until a JWT names an unknown one. It also asks the
// provider again for each JWT with an invalid signature, so anyone could make us flood it. And it does not know how old
// its keys are.
type keySet struct {
	client *http.Client
	url    string // set once, before the first fetch

	fetching sync.Mutex // held during a fetch
	mu       sync.RWMutex
	keys     []jose.JSONWebKey
	good     time.Time // time of the provider's last answer
	asked    time.Time // time of the last fetch because of an unknown key
	version  int       // number of changes of the keys
}

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(jwt, signingAlgorithms)
	if err != nil || len(jws.Signatures) != 1 {
		return nil, errNotSigned
	}
	keyID := jws.Signatures[0].Header.KeyID
	keys, err := k.named(keyID)
	if err == nil && len(keys) == 0 {
		if err = k.fetchOnce(ctx, keyID); err == nil {
			keys, err = k.named(keyID)
		}
	}
	if err != nil {
		return nil, err
	}
	for i := range keys {
		if payload, err := jws.Verify(&keys[i]); err == nil {
			return payload, nil
		}
	}
	return nil, errNotSigned
}

// named returns the keys with an id, or all keys if it is empty.
func (k *keySet) named(id string) (keys []jose.JSONWebKey, err error) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if time.Since(k.good) > keysHold {
		return nil, errKeysOld
	}
	for _, key := range k.keys {
		if id == "" || key.KeyID == id {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// fetchOnce fetches the keys because one is unknown, unless that was done recently.
func (k *keySet) fetchOnce(ctx context.Context, id string) error {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	if keys, err := k.named(id); err != nil || len(keys) > 0 {
		return err
	}
	k.mu.Lock()
	soon := time.Since(k.asked) < keysGap
	if !soon {
		k.asked = time.Now()
	}
	k.mu.Unlock()
	if soon {
		return errNoKeysFetch
	}
	return k.ask(ctx)
}

// fetch fetches the keys.
func (k *keySet) fetch(ctx context.Context) error {
	k.fetching.Lock()
	defer k.fetching.Unlock()
	return k.ask(ctx)
}

func (k *keySet) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return err
	}
	answer, err := k.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", k.url, answer.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
		return fmt.Errorf("the keys at %s: %w", k.url, err)
	}
	keys := usable(set.Keys)
	if len(keys) == 0 {
		return fmt.Errorf("there is no usable key at %s", k.url)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	same := slices.EqualFunc(k.keys, keys, func(a, b jose.JSONWebKey) bool {
		return a.KeyID == b.KeyID && sameKey(&a, &b)
	})
	if !same {
		k.version++
	}
	k.keys, k.good = keys, time.Now()
	return nil
}

// usable returns the public signature keys. Unreadable keys are skipped: they may be for something newer.
func usable(texts []json.RawMessage) (keys []jose.JSONWebKey) {
	for _, text := range texts {
		var key jose.JSONWebKey
		if json.Unmarshal(text, &key) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			keys = append(keys, key)
		}
	}
	return keys
}

func sameKey(a, b *jose.JSONWebKey) bool {
	one, ok := a.Key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && one.Equal(b.Key)
}

// current returns the version of the keys, or 0 without valid keys.
func (k *keySet) current() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if time.Since(k.good) > keysHold {
		return 0
	}
	return k.version
}
