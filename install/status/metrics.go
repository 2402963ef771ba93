// SPDX-License-Identifier: Apache-2.0

package status

import (
	"context"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Most metrics are computed from the ClusterAPI object at each scrape, so they are
// correct after a restart and the same from every replica.
var (
	revisionInfo = describeMetric("revision_info",
		"Versions in status.versions, each with value 1. Label current marks the installed version, desired the version to install.",
		"version", "revision", "content_id", "current", "desired")
	componentInfo = describeMetric("component_info",
		"Providers of the versions, each with value 1.", "version", "component", "type", "component_version")
	phaseState = describeMetric("phase_state",
		"State of each phase of each version: 1 for the current state, 0 for the others.", "version", "phase", "state")
	phaseSince = describeMetric("phase_state_start_time_seconds",
		"Time at which the phase entered its state, in seconds since the epoch.", "version", "phase")
	phaseObjects = describeMetric("phase_objects",
		"Number of objects in the phase; during a removal, of the remaining objects.", "version", "phase")
	phaseReady = describeMetric("phase_ready_objects",
		"Number of ready objects in the phase.", "version", "phase")
	conditionState = describeMetric("condition",
		"Conditions of the ClusterAPI object: 1 for the current status, 0 for the others.", "condition", "status")
	preflightIncompatible = describeMetric("preflight_incompatible_crds",
		"Number of unmanaged CRDs that are incompatible with the version.", "version")
	overrideInfo = describeMetric("image_override_info",
		"Images of the release that spec.imageOverrides replaces, each with value 1.", "name", "image")
	paused = describeMetric("paused",
		"1 if spec.installerMode is Paused, 0 otherwise.")
	descriptions = []*prometheus.Desc{
		revisionInfo, componentInfo, phaseState, phaseSince, phaseObjects, phaseReady,
		conditionState, preflightIncompatible, overrideInfo, paused,
	}
)

func describeMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("capi_installer_"+name, help, labels, nil)
}

// phaseDuration is observed when a phase in progress becomes complete.
var phaseDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "capi_installer_phase_duration_seconds",
	Help:    "Time from the start of a phase to its completion.",
	Buckets: []float64{1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600},
}, []string{"phase"})

// Metrics is a collector of the state in the ClusterAPI object.
type Metrics struct {
	// Reader reads the object at every scrape, so it should be a cache.
	Reader client.Reader
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, description := range descriptions {
		out <- description
	}
	phaseDuration.Describe(out)
}

// Collect sends all metrics. It sends none if the object does not exist or cannot
// be read within a second.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	phaseDuration.Collect(out)
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	cluster := &v1alpha1.ClusterAPI{}
	if err := m.Reader.Get(ctx, client.ObjectKey{Name: v1alpha1.ClusterAPIName}, cluster); err != nil {
		return
	}
	gauges(out).cluster(cluster)
}

// gauges is the channel that receives metrics.
type gauges chan<- prometheus.Metric

func (g gauges) set(description *prometheus.Desc, value float64, labels ...string) {
	g <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

// oneOf sets 1 for the current state and 0 for all others, with the state as the last label.
func (g gauges) oneOf(description *prometheus.Desc, states []string, state string, labels ...string) {
	for _, one := range states {
		g.set(description, number(one == state), append(labels[:len(labels):len(labels)], one)...)
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

var (
	phaseStates = []string{
		string(v1alpha1.PhasePending), string(v1alpha1.PhaseProgressing), string(v1alpha1.PhaseBlocked),
		string(v1alpha1.PhaseComplete), string(v1alpha1.PhaseRemoving),
	}
	conditionStates = []string{string(metav1.ConditionTrue), string(metav1.ConditionFalse), string(metav1.ConditionUnknown)}
)

func (g gauges) cluster(cluster *v1alpha1.ClusterAPI) {
	g.set(paused, number(cluster.Spec.InstallerMode == v1alpha1.Paused))
	for _, override := range cluster.Spec.ImageOverrides {
		g.set(overrideInfo, 1, override.Name, string(override.Image))
	}
	for _, condition := range cluster.Status.Conditions {
		g.oneOf(conditionState, conditionStates, string(condition.Status), condition.Type)
	}
	for i := range cluster.Status.Versions {
		g.version(&cluster.Status, &cluster.Status.Versions[i])
	}
}

func (g gauges) version(status *v1alpha1.ClusterAPIStatus, version *v1alpha1.Version) {
	is := func(name string) string { return strconv.FormatBool(version.Name == name) }
	g.set(revisionInfo, 1, version.Name, strconv.FormatInt(version.Revision, 10), string(version.ContentID),
		is(status.CurrentVersion), is(status.DesiredVersion))
	for _, component := range version.Components {
		g.set(componentInfo, 1, version.Name, component.Name, component.Type, component.Version)
	}
	for _, phase := range version.Phases {
		g.oneOf(phaseState, phaseStates, string(phase.State), version.Name, phase.Name)
		g.set(phaseSince, float64(phase.Since.Unix()), version.Name, phase.Name)
		g.set(phaseObjects, float64(phase.Objects), version.Name, phase.Name)
		g.set(phaseReady, float64(phase.Ready), version.Name, phase.Name)
		if phase.Name == preflight {
			g.set(preflightIncompatible, incompatible(phase), version.Name)
		}
	}
}

// preflight is the name of the phase that checks unmanaged CRDs.
const preflight = "preflight"

// incompatible counts the unmanaged CRDs that are known to be incompatible, among those
// that a phase names.
func incompatible(phase v1alpha1.Phase) float64 {
	if phase.State != v1alpha1.PhaseBlocked {
		return 0
	}
	return float64(len(phase.WaitingFor))
}

// observeDurations observes the durations of the phases that have just completed; 0 for
// those that have begun and completed between two writes.
func observeDurations(before, after *v1alpha1.ClusterAPI) {
	for _, version := range after.Status.Versions {
		known := before.Status.Version(version.Name)
		if known == nil {
			continue
		}
		for _, phase := range version.Phases {
			if phase.State != v1alpha1.PhaseComplete {
				continue
			}
			switch was := phaseNamed(known.Phases, phase.Name); was.State {
			case v1alpha1.PhaseProgressing, v1alpha1.PhaseBlocked:
				phaseDuration.WithLabelValues(phase.Name).Observe(phase.Since.Sub(was.Since.Time).Seconds())
			case v1alpha1.PhasePending:
				phaseDuration.WithLabelValues(phase.Name).Observe(0)
			case v1alpha1.PhaseComplete, v1alpha1.PhaseRemoving: // it was observed before, or is not installed
			}
		}
	}
}
