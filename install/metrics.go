// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/installer"
	"github.com/capi-installer/capi-installer/install/status"
)

// registerMetrics registers the metrics of the controllers with the registry that
// the manager serves. If a process has several managers, the last one provides
// the metrics.
func registerMetrics(reader client.Reader) {
	collector := &status.Metrics{Reader: reader}
	metrics.Registry.Unregister(collector)
	for _, one := range append(installer.Collectors(), collector, pulls, reads) {
		_ = metrics.Registry.Register(one) // already registered by another manager
	}
}

// pulls is a histogram, whose count is the number of pulls.
var pulls = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "capi_installer_image_pull_duration_seconds",
	Help:    "Duration of image pulls from a registry, by result (success, error). Images from the cache are not counted.",
	Buckets: []float64{0.1, 0.3, 1, 3, 10, 30, 100, 300},
}, []string{"result"})

var reads = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capi_installer_image_reads_total",
	Help: "Requested images, by result (success, error), including images from the cache.",
}, []string{"result"})

// MeasureReads returns a Fetcher that counts its calls of next. It wraps a cache:
// the reads without a pull are cache hits.
func MeasureReads(next extractor.Fetcher) extractor.Fetcher {
	return measured{next, func(result string, _ time.Duration) { reads.WithLabelValues(result).Inc() }}
}

// MeasurePulls returns a Fetcher that measures its calls of next. It sits between a
// cache and its source.
func MeasurePulls(next extractor.Fetcher) extractor.Fetcher {
	return measured{next, func(result string, took time.Duration) { pulls.WithLabelValues(result).Observe(took.Seconds()) }}
}

type measured struct {
	next extractor.Fetcher
	note func(result string, took time.Duration)
}

// Fetch returns the bundles of an image.
func (m measured) Fetch(ctx context.Context, reference string) ([]extractor.Bundle, error) {
	began := time.Now()
	bundles, err := m.next.Fetch(ctx, reference)
	result := "success"
	if err != nil {
		result = "error"
	}
	m.note(result, time.Since(began))
	return bundles, err
}
