// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What is done is counted where it is done; it cannot be read from the status.
var (
	objectOperations = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_installer_object_operations_total",
		Help: "Objects that were written, by kind and operation: created, updated, or recovered from another's hands.",
	}, []string{"kind", "operation"})
	driftCorrections = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capi_installer_drift_corrections_total",
		Help: "Objects of a completely installed version that were put right because somebody had edited or deleted them, by kind.",
	}, []string{"kind"})
)

// Collectors are the metrics of what the controller does.
func Collectors() []prometheus.Collector {
	return []prometheus.Collector{objectOperations, driftCorrections}
}

func countOperation(object client.Object, action machinery.Action) {
	objectOperations.WithLabelValues(kindOf(object), strings.ToLower(string(action))).Inc()
}

func countDrift(object client.Object) { driftCorrections.WithLabelValues(kindOf(object)).Inc() }

func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }
