package redistest

import (
	"errors"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"
)

// clients are the clients handed out by a server, which closes them.
type clients struct {
	mu   sync.Mutex
	open []io.Closer
}

func (c *clients) add(client io.Closer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, client)
}

// closeAll closes the clients that their users have not closed yet.
func (c *clients) closeAll() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, client := range c.open {
		if err := client.Close(); err != nil && !errors.Is(err, redis.ErrClosed) {
			errs = append(errs, err)
		}
	}
	c.open = nil
	return errors.Join(errs...)
}
