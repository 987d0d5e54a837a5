package tracing

import (
	"encoding/binary"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// sampling decides which traces are recorded, before anything is made for one: that is why the SDK's samplers, which
// need a span to be started, are not used.
type sampling struct {
	follow bool   // whoever comes before has decided: the parent, or the append that an attempt is linked to
	below  uint64 // else the jobs of which the digest, halved, is below
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
			return s, misuse(nameKey, name, "says nothing behind parentbased_")
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
		return s, misuse(nameKey, name, "must be always_on, always_off or traceidratio, or one of these behind parentbased_")
	}
	return s, nil
}

// takes reports whether a job is traced, by its digest, or if before is valid by what that has decided.
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
