// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/capi-installer/capi-installer/install/engine"
)

// These metrics count writes: the status does not record them.
var (
	objectOperations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_installer_object_operations_total",
		Help: "Objects written, by kind and operation: created, updated, or recovered (taken back from another field manager).",
	}, []string{"kind", "operation"})
	driftCorrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_installer_drift_corrections_total",
		Help: "External changes and deletions of objects of the installed version that were reverted, by kind.",
	}, []string{"kind"})
)

// Collectors returns the metrics of the controller.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{objectOperations, driftCorrections}
}

func countOperation(o engine.Object) {
	objectOperations.WithLabelValues(o.Kind, strings.ToLower(string(o.Action))).Inc()
}

func countDrift(o engine.Object) { driftCorrections.WithLabelValues(o.Kind).Inc() }
