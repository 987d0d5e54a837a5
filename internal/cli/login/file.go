// Package login keeps the tokens with which a person comes to servers, in one file of his configuration directory.
//
// It promises that nobody else can read that file, that a login is found only for the server that it was kept for, and
// that two processes which change the file at once lose nothing. It refuses a file that others can read.
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

// Login is how to come to one server.
type Login struct {
	// Profile is its name; empty of the one that a server has without a name.
	Profile string `json:"profile,omitempty"`
	// URL is the server, as Server writes it.
	URL string `json:"url"`
	// Token is what is shown there. Or Socket is the path of its Unix socket, which is asked in place of the URL and shown
	// nothing: who has the port of a server that ended learns no secret.
	Token  string `json:"token,omitempty"`
	Socket string `json:"socket,omitempty"`
}

// File is where logins are kept.
type File struct{ Path string }

// contents is a File as JSON.
type contents struct {
	Servers []Login `json:"servers"`
}

// Default is the File of whoever runs this process. It need not be there yet.
func Default() (File, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return File{}, fmt.Errorf("where logins are kept: %w", err)
	}
	return File{filepath.Join(dir, "penstock", "servers.json")}, nil
}

// Logins are all that are kept, none if there is no file.
func (f File) Logins() ([]Login, error) {
	if err := Private(f.Path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(f.Path)
	if err != nil {
		return nil, fmt.Errorf("the logins: %w", err)
	}
	var c contents
	if err := json.Unmarshal(text, &c); err != nil { // whose message quotes no token
		return nil, fmt.Errorf("the logins in %s: %w; mend the file, or remove it and log in again", f.Path, err)
	}
	return c.Servers, nil
}

// Of returns the login of a server that has no name; false if there is none.
func (f File) Of(url string) (Login, bool, error) {
	return f.find(func(l *Login) bool { return l.Profile == "" && l.URL == url })
}

// Named returns the login of a profile; false if there is none.
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

// Keep keeps a login, in place of the one with its profile or, without a name, of its server. Those whose socket is
// gone go.
func (f File) Keep(l Login) error {
	return f.change(func(all []Login) []Login {
		all = slices.DeleteFunc(all, func(o Login) bool {
			return o.Profile == l.Profile && (l.Profile != "" || o.URL == l.URL) || l.Socket != "" && o.Socket == l.Socket ||
				o.Socket != "" && !exists(o.Socket)
		})
		return append(all, l)
	})
}

// Forget removes the logins that are chosen, and returns them.
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

// change writes what change makes of the logins. The file is replaced as a whole, so that a reader never meets half of
// it.
func (f File) change(change func([]Login) []Login) error {
	dir := filepath.Dir(f.Path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("where logins are kept: %w", err)
	}
	unlock, err := lock(f.Path + ".lock")
	if err != nil {
		return fmt.Errorf("where logins are kept: %w", err)
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
		return fmt.Errorf("the logins: %w", err)
	}
	err = outfile.Replace(context.Background(), f.Path, outfile.Private, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
	if err != nil {
		return fmt.Errorf("the logins: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
