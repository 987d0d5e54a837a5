package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/penstock/penstock/queue"
)

// traceOf is a new trace about a job. The half of its id by which ratios sample follows from the job: so whoever meets
// the job, its append or any attempt, decides alike, though a job that is not sampled carries nothing that says so.
func traceOf(job uint64) (id trace.TraceID) {
	for !id.IsValid() {
		binary.BigEndian.PutUint64(id[:8], rand.Uint64())
		binary.BigEndian.PutUint64(id[8:], job)
	}
	return id
}

// digest tells a job from others.
func digest(j *queue.Job) uint64 {
	var d xxhash.Digest
	d.Reset()
	_, _ = d.WriteString(j.Queue)
	_, _ = d.WriteString("/")
	_, _ = d.WriteString(j.ID)
	return d.Sum64()
}

type idKey struct{}

// withID has the root span that is started next under ctx be of that trace, by whose id it was sampled.
func withID(ctx context.Context, id trace.TraceID) context.Context {
	return context.WithValue(ctx, idKey{}, id)
}

// ids names spans. It is an sdk/trace.IDGenerator.
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
