package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"go.opentelemetry.io/otel/trace"
)

func newTraceID() (id trace.TraceID) {
	for !id.IsValid() {
		binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
		binary.NativeEndian.PutUint64(id[8:], rand.Uint64())
	}
	return id
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
		id = newTraceID()
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
