// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/internal/text"
)

// rolloutLog logs the progress of rollouts: a line for each change of state. The
// zero value is ready. It is not safe for concurrent use.
type rolloutLog struct {
	last map[string]string // last state by subject
}

// changed records the state of a subject and reports whether it differs from the
// last one.
func (l *rolloutLog) changed(subject, state string) bool {
	if l.last == nil {
		l.last = map[string]string{}
	}
	changed := l.last[subject] != state
	l.last[subject] = state
	return changed
}

// once logs a message with its cause, unless both are the same as in the previous call.
// It logs nothing if the cause is empty.
func (l *rolloutLog) once(ctx context.Context, message, cause string, details ...any) {
	if l.changed(message, cause) && cause != "" {
		log.FromContext(ctx).Info(message, append(details, "cause", cause)...)
	}
}

// error logs an error once. It logs nothing if there is none.
func (l *rolloutLog) error(ctx context.Context, message string, err error, details ...any) {
	cause := ""
	if err != nil {
		cause = err.Error()
	}
	l.once(ctx, message, cause, details...)
}

// phases logs the writes and the progress of the phases of a version.
func (l *rolloutLog) phases(ctx context.Context, version string, phases []engine.Phase) {
	for _, phase := range phases {
		logWrites(ctx, phase)
		l.phase(ctx, version, phase)
	}
}

func (l *rolloutLog) phase(ctx context.Context, version string, phase engine.Phase) {
	var missing []string
	for _, o := range phase.Objects {
		if !o.Ready {
			missing = append(missing, o.String()+" ("+o.Reason+")")
		}
	}
	state := strings.Join(missing, "; ")
	if phase.Complete {
		state = "complete"
	}
	if !l.changed(version+"/"+phase.Name, state) {
		return
	}
	logger := log.FromContext(ctx).WithValues("version", version, "phase", phase.Name, "objects", len(phase.Objects), "ready", len(phase.Objects)-len(missing))
	if phase.Complete {
		logger.Info("Phase complete")
	} else {
		logger.Info("Phase waiting", "for", text.First(2, missing))
	}
}

// teardown logs the progress of a version that is being removed.
func (l *rolloutLog) teardown(ctx context.Context, version string, progress removal.Progress) {
	logger := log.FromContext(ctx).WithValues("version", version)
	for _, crd := range progress.Retained {
		logger.Info("Retained CRD", "crd", crd)
	}
	state := strings.Join(progress.Waiting, ", ")
	if progress.Complete {
		state = "nothing"
	}
	if l.changed(version+" removal", state) {
		logger.Info("Removing version", "objects", len(progress.Waiting), "waitsFor", text.First(10, progress.Waiting))
	}
}

// logWrites logs and counts every object that was written.
func logWrites(ctx context.Context, phase engine.Phase) {
	for _, o := range phase.Objects {
		if !o.Written() {
			continue
		}
		countOperation(o)
		log.FromContext(ctx).Info("Object written", "phase", phase.Name, "object", o.String(), "action", o.Action)
	}
}

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
