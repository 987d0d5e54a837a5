package client

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// token is where the token comes from: a value, a file, or a function.
type token struct {
	file string
	ask  func(context.Context) (string, error)

	mu    sync.Mutex
	value string
	known bool
	read  os.FileInfo // the file when it was read
}

func tokenOfEnvironment() *token {
	if value := os.Getenv("PENSTOCK_TOKEN"); value != "" {
		return &token{value: value, known: true}
	}
	return &token{file: os.Getenv("PENSTOCK_TOKEN_FILE"), known: os.Getenv("PENSTOCK_TOKEN_FILE") == ""}
}

// used reports whether requests have tokens.
func (t *token) used() bool { return t.renewable() || t.value != "" }

// renewable reports whether another token may follow.
func (t *token) renewable() bool { return t.file != "" || t.ask != nil }

// get returns the token. It asks again if the token is the one that was refused.
func (t *token) get(ctx context.Context, refused string) (string, error) {
	if !t.renewable() {
		return t.value, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	stale := !t.known || refused != "" && t.value == refused
	if t.ask != nil {
		if !stale {
			return t.value, nil
		}
		value, err := t.ask(ctx)
		if err != nil {
			return "", fmt.Errorf("get the token: %w", err)
		}
		t.value, t.known = strings.TrimSpace(value), true
		return t.value, nil
	}
	info, err := os.Stat(t.file)
	if err == nil && !stale && os.SameFile(info, t.read) && info.Size() == t.read.Size() &&
		info.ModTime().Equal(t.read.ModTime()) {
		return t.value, nil
	}
	text, err := os.ReadFile(t.file)
	switch {
	case err == nil:
		t.value, t.known, t.read = strings.TrimSpace(string(text)), true, info
	case !t.known: // a file that is being replaced may be missing for a moment
		return "", fmt.Errorf("read the token: %w", err)
	}
	return t.value, nil
}
