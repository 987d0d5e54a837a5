package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/queue"
)

// traceOf returns a new trace id for a job. The half of the id used for ratio sampling is derived from the job. So its
// append and all attempts decide alike, although a job that is not sampled carries no mark.
func traceOf(job uint64) (id trace.TraceID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], job)
	}
	return id
}

// digest returns a hash of the job's queue and id.
func digest(j *queue.Job) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(j.Queue)
	_, _ = d.WriteString("/")
	_, _ = d.WriteString(j.ID)
	return d.Sum64()
}

type idKey struct{}

// withID sets the trace id for the next root span started under ctx.
func withID(ctx context.Context, id trace.TraceID) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// ids is an sdk/trace.IDGenerator.
type ids struct{}

// NewIDs implements sdk/trace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	id, ok := ctx.Value(idKey{}).(trace.TraceID)
	if !ok {
		id = traceOf(rand.Uint64())
	}
	return id, ids{}.NewSpanID(ctx, id)
}

// NewSpanID implements sdk/trace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:], rand.Uint64())
	}
	return id
}
