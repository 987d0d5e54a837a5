package tracing

import (
	"encoding/binary"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// sampling decides which traces are recorded. It decides before a span is started, which the SDK's samplers cannot.
type sampling struct {
	follow bool   // follow the decision of the parent, or of the append that an attempt is linked to
	below  uint64 // otherwise record jobs whose halved digest is below this
}

const allTraces = 1 << 63

// samplingFromEnv reads OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG.
func samplingFromEnv() (sampling, error) {
	const nameKey, argKey = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	name := strings.ToLower(env(nameKey))
	kind, follow := strings.CutPrefix(name, "parentbased_")
	s := sampling{follow: follow}
	switch kind {
	case "":
		if name != "" {
			return s, misuse(nameKey, name, "needs a sampler after parentbased_")
		}
		s = sampling{follow: true, below: allTraces}
	case "always_on":
		s.below = allTraces
	case "always_off":
	case "traceidratio":
		s.below = allTraces
		if arg := env(argKey); arg != "" {
			ratio, err := strconv.ParseFloat(arg, 64)
			if err != nil || !(ratio >= 0 && ratio <= 1) {
				return s, misuse(argKey, arg, "must be a number from 0 to 1")
			}
			s.below = uint64(ratio * allTraces)
		}
	default:
		return s, misuse(nameKey, name,
			"must be always_on, always_off or traceidratio, optionally with the prefix parentbased_")
	}
	return s, nil
}

// takes reports whether to trace the job with the given digest. before, if valid, is the context of its parent or
// append.
func (s sampling) takes(job uint64, before trace.SpanContext) bool {
	if before.IsValid() {
		if s.follow {
			return before.IsSampled()
		}
		id := before.TraceID()
		job = binary.BigEndian.Uint64(id[8:])
	}
	return job>>1 < s.below
}
