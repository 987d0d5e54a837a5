// Package storecmd has the commands that open a store themselves: init, check, export and import.
package storecmd

import (
	"fmt"
	"log/slog"

	"github.com/penstock/penstock/internal/app"
	"github.com/penstock/penstock/internal/app/store"
	"github.com/penstock/penstock/internal/cli/archive"
	"github.com/penstock/penstock/internal/cli/command"
)

// storeFlags name a store to open.
type storeFlags struct {
	Store  string `required:"" placeholder:"URL|DIR"`
	Prefix string `help:"Prefix of the keys on Redis." default:"ps" placeholder:"TEXT"`
}

func (storeFlags) LongHelp() map[string]string {
	return map[string]string{
		"store": "Store: the URL of a Redis, as ingress and drainer take it (redis://HOST:PORT, redis+sentinel://..., " +
			"redis+cluster://...), or the directory of an embedded store.",
	}
}

func (s storeFlags) open(r *command.Run, o store.Options) (*store.Named, error) {
	o.Flag, o.Prefix, o.Logger = "--store", s.Prefix, command.Logger(r.Err, slog.LevelWarn)
	app.QuietRedis(o.Logger)
	return store.OpenNamed(r.Ctx, s.Store, o)
}

// movable returns the engine of a store for export and import.
func movable(s *store.Named) (archive.Store, error) {
	engine, ok := s.Engine.(archive.Store)
	if !ok {
		return nil, fmt.Errorf("a store of kind %s cannot be exported or imported", s.Kind)
	}
	return engine, nil
}
