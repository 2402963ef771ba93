// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These metrics count writes, which the status does not record.
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

func countOperation(object client.Object, action machinery.Action) {
	objectOperations.WithLabelValues(kindOf(object), strings.ToLower(string(action))).Inc()
}

func countDrift(object client.Object) { driftCorrections.WithLabelValues(kindOf(object)).Inc() }

func kindOf(object client.Object) string { return object.GetObjectKind().GroupVersionKind().Kind }
