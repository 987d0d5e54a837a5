package metrics

import "github.com/prometheus/client_golang/prometheus"

// register registers all collectors and returns the first error.
func register(reg prometheus.Registerer, collectors ...prometheus.Collector) error {
	for _, c := range collectors {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}
