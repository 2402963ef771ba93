// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"strings"

	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/status"
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

// failure logs the error of an outcome once.
func (l *rolloutLog) failure(ctx context.Context, outcome status.Outcome) {
	l.error(ctx, "Installation failed", outcome.Err, "reason", outcome.Reason)
}

// error logs an error once. It logs nothing if there is none.
func (l *rolloutLog) error(ctx context.Context, message string, err error, details ...any) {
	cause := ""
	if err != nil {
		cause = err.Error()
	}
	l.once(ctx, message, cause, details...)
}

// phases logs the writes and the progress of the phases of a revision.
func (l *rolloutLog) phases(ctx context.Context, rev *loadedRevision, result machinery.RevisionResult) {
	if result == nil {
		return
	}
	for _, phase := range result.GetPhases() {
		logWrites(ctx, phase)
		l.phase(ctx, rev.name, phase)
	}
}

func (l *rolloutLog) phase(ctx context.Context, version string, phase machinery.PhaseResult) {
	ready, missing := progress(phase)
	state := strings.Join(missing, "; ")
	if phase.IsComplete() {
		state = "complete"
	}
	if !l.changed(version+"/"+phase.GetName(), state) {
		return
	}
	logger := log.FromContext(ctx).WithValues("version", version, "phase", phase.GetName(), "objects", len(phase.GetObjects()), "ready", ready)
	if phase.IsComplete() {
		logger.Info("Phase complete")
	} else {
		logger.Info("Phase waiting", "for", text.First(2, missing))
	}
}

// teardown logs the progress of a version that is being removed.
func (l *rolloutLog) teardown(ctx context.Context, version string, progress teardownProgress) {
	logger := log.FromContext(ctx).WithValues("version", version)
	for _, crd := range progress.retained {
		logger.Info("Retained CRD", "crd", crd)
	}
	state := strings.Join(progress.waiting, ", ")
	if progress.done {
		state = "nothing"
	}
	if l.changed(version+" removal", state) {
		logger.Info("Removing version", "objects", len(progress.waiting), "waitsFor", text.First(10, progress.waiting))
	}
}

// logWrites logs and counts every object that was written.
func logWrites(ctx context.Context, phase machinery.PhaseResult) {
	for _, object := range phase.GetObjects() {
		action := object.Action()
		if action == machinery.ActionIdle || action == machinery.ActionProgressed || action == machinery.ActionCollision {
			continue
		}
		countOperation(object.Object(), action)
		log.FromContext(ctx).Info("Object written", "phase", phase.GetName(), "object", describe(object.Object()), "action", action)
	}
}
