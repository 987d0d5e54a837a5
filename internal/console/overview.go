package console

import "github.com/penstock/penstock/internal/wire"

// overview is what the page shows.
type overview struct {
	Queues []wire.Queue
}

func readOverview(r *request) (any, error) {
	queues, err := r.api.Queues(r.Context())
	return overview{queues}, err
}
