// Package login saves a user's tokens for servers in a file of the configuration directory.
//
// It promises that nobody else can read the file, that a login is used only for its server, and that concurrent changes
// lose nothing. It refuses a file that others can read.
package login

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/penstock/penstock/internal/cli/outfile"
)

// Login is a saved way to reach a server.
type Login struct {
	// Profile is its name. The default login of a server has none.
	Profile string `json:"profile,omitempty"`
	// URL is the server, in the form of Server.
	URL string `json:"url"`
	// Token is the token, or Socket the path of a Unix socket to use instead of the URL, without a token. So a process
	// that takes over the port of a server learns no secret.
	Token  string `json:"token,omitempty"`
	Socket string `json:"socket,omitempty"`
}

// File is a file of logins.
type File struct{ Path string }

// contents is the JSON of a File.
type contents struct {
	Servers []Login `json:"servers"`
}

// Default returns the File of the user. It need not exist.
func Default() (File, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return File{}, fmt.Errorf("find the file of logins: %w", err)
	}
	return File{filepath.Join(dir, "penstock", "servers.json")}, nil
}

// Logins returns all logins, none without a file.
func (f File) Logins() ([]Login, error) {
	if err := Private(f.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("file of logins: %w", err)
	}
	var c contents
	if err := json.Unmarshal(text, &c); err != nil { // the error does not quote tokens
		return nil, fmt.Errorf("logins in %s: %w; fix the file, or remove it and log in again", f.Path, err)
	}
	return c.Servers, nil
}

// Of returns the default login of a server.
func (f File) Of(url string) (Login, bool, error) {
	return f.find(func(l *Login) bool { return l.Profile == "" && l.URL == url })
}

// Named returns the login of a profile.
func (f File) Named(profile string) (Login, bool, error) {
	return f.find(func(l *Login) bool { return l.Profile == profile })
}

func (f File) find(is func(*Login) bool) (Login, bool, error) {
	all, err := f.Logins()
	for i := range all {
		if is(&all[i]) {
			return all[i], true, err
		}
	}
	return Login{}, false, err
}

// Keep saves a login. It replaces the login of the same profile, or the default login of the server. It removes logins
// whose socket is gone.
func (f File) Keep(l Login) error {
	return f.change(func(all []Login) []Login {
		all = slices.DeleteFunc(all, func(o Login) bool {
			return o.Profile == l.Profile && (l.Profile != "" || o.URL == l.URL) || l.Socket != "" && o.Socket == l.Socket ||
				o.Socket != "" && !exists(o.Socket)
		})
		return append(all, l)
	})
}

// Forget removes the chosen logins and returns them.
func (f File) Forget(chosen func(Login) bool) (gone []Login, err error) {
	err = f.change(func(all []Login) []Login {
		return slices.DeleteFunc(all, func(l Login) bool {
			if !chosen(l) {
				return false
			}
			gone = append(gone, l)
			return true
		})
	})
	return gone, err
}

// change replaces the file by the changed logins. Readers never see a partial file.
func (f File) change(change func([]Login) []Login) error {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("find the file of logins: %w", err)
	}
	unlock, err := lock(f.Path + ".lock")
	if err != nil {
		return fmt.Errorf("find the file of logins: %w", err)
	}
	defer unlock()
	before, err := f.Logins()
	if err != nil {
		return err
	}
	after := change(slices.Clone(before))
	slices.SortFunc(after, func(a, b Login) int {
		return cmp.Or(cmp.Compare(a.URL, b.URL), cmp.Compare(a.Profile, b.Profile))
	})
	if slices.Equal(before, after) {
		return nil
	}
	text, err := json.MarshalIndent(contents{after}, "", "  ")
	if err != nil {
		return fmt.Errorf("file of logins: %w", err)
	}
	err = outfile.Replace(context.Background(), f.Path, outfile.Private, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("file of logins: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
