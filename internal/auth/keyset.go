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
	errNotSigned      = errors.New("no key of the provider has signed it")
	errNoKeysFetch    = errors.New("a key that is not known was asked for a moment ago")
	signingAlgorithms = func() (all []jose.SignatureAlgorithm) {
		for _, a := range algorithms {
			all = append(all, jose.SignatureAlgorithm(a))
		}
		return all
	}()
)

// keySet is the keys of a provider. It is an oidc.KeySet in place of the library's RemoteKeySet, which keeps a key that
// was withdrawn until somebody comes with one that it does not know, and asks the provider anew for each JWT that no
// key has signed: whoever guesses would have us flood it. It also says nothing of how old its keys are.
type keySet struct {
	client *http.Client
	url    string // set once, before keys are asked for

	fetching sync.Mutex // held by who asks
	mu       sync.RWMutex
	keys     []jose.JSONWebKey
	good     time.Time // when the provider answered last
	asked    time.Time // when it was asked last, by somebody who met a key that was not known
	version  int       // counts how often keys changed
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

// named returns the keys of an id; all of them if it is empty.
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

// fetchOnce asks for keys because one is not known, unless that was done a moment ago.
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

// fetch asks for keys.
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
		return fmt.Errorf("there is no key at %s that could be used", k.url)
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

// usable are the public keys for signatures. What cannot be read is left out: it may be for something newer.
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

// current counts the changes of the keys; it is 0 while there are none that hold.
func (k *keySet) current() int {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if time.Since(k.good) > keysHold {
		return 0
	}
	return k.version
}
