// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/install/status"
)

// journal writes a line to the log when a phase begins, waits for something
// else than before, or ends, and never the same line twice. The zero value is
// ready. It belongs to one controller with one worker.
type journal struct {
	phases map[string]*phaseRecord
	// failure is why nothing was installed the last time.
	failure string
	// said is the last line of each kind.
	said map[string]string
}

// say logs a line with what there is to know, unless it is what was said last. Nothing
// to know is not said, and forgotten.
func (j *journal) say(ctx context.Context, line, what string) {
	if j.said[line] == what {
		return
	}
	if j.said == nil {
		j.said = map[string]string{}
	}
	j.said[line] = what
	if what != "" {
		log.FromContext(ctx).Info(line, "because", what)
	}
}

// recordFailure logs why nothing is installed, once for each cause.
func (j *journal) recordFailure(ctx context.Context, outcome status.Outcome) {
	cause := ""
	if outcome.Err != nil {
		cause = outcome.Err.Error()
	}
	if cause != "" && cause != j.failure {
		log.FromContext(ctx).Info("Not installed", "reason", outcome.Reason, "cause", cause)
	}
	j.failure = cause
}

// phaseRecord is what was last said about a phase.
type phaseRecord struct {
	began    time.Time
	complete bool
	waiting  string
	actions  map[string]int
}

// record notes what one pass did to the phases of a revision.
func (j *journal) record(ctx context.Context, rev *revisionObjects, result machinery.RevisionResult) {
	if result == nil {
		return
	}
	for _, phase := range result.GetPhases() {
		j.recordPhase(ctx, rev, phase)
	}
}

func (j *journal) recordPhase(ctx context.Context, rev *revisionObjects, phase machinery.PhaseResult) {
	record := j.of(rev.name + "/" + phase.GetName())
	written(ctx, record.actions, phase)
	ready, missing := progress(phase)
	waiting := strings.Join(missing, "; ")
	if phase.IsComplete() == record.complete && waiting == record.waiting {
		return
	}
	logger := log.FromContext(ctx).WithValues("version", rev.name, "phase", phase.GetName(),
		"objects", len(phase.GetObjects()), "ready", ready, "seconds", time.Since(record.began).Round(time.Millisecond).Seconds())
	if phase.IsComplete() {
		logger.Info("Phase complete", "done", describeActions(record.actions))
		record.actions = map[string]int{}
	} else {
		logger.Info("Phase waits", "for", shorten(missing))
	}
	record.complete, record.waiting = phase.IsComplete(), waiting
	if record.complete {
		record.began = time.Time{}
	}
}

// of returns the record of a phase, begun now if it is not under way.
func (j *journal) of(key string) *phaseRecord {
	if j.phases == nil {
		j.phases = map[string]*phaseRecord{}
	}
	record := j.phases[key]
	if record == nil {
		record = &phaseRecord{actions: map[string]int{}}
		j.phases[key] = record
	}
	if record.began.IsZero() {
		record.began = time.Now()
	}
	return record
}

// written logs every object that was written, and adds up by action. What was left alone does not count.
func written(ctx context.Context, actions map[string]int, phase machinery.PhaseResult) {
	for _, object := range phase.GetObjects() {
		action := object.Action()
		if action == machinery.ActionIdle || action == machinery.ActionProgressed || action == machinery.ActionCollision {
			continue
		}
		actions[strings.ToLower(string(action))]++
		countOperation(object.Object(), action)
		log.FromContext(ctx).Info("Object written", "phase", phase.GetName(), "object", describe(object.Object()), "action", action)
	}
}

func describeActions(actions map[string]int) string {
	if len(actions) == 0 {
		return "unchanged"
	}
	var parts []string
	for _, action := range slices.Sorted(maps.Keys(actions)) {
		parts = append(parts, fmt.Sprintf("%d %s", actions[action], action))
	}
	return strings.Join(parts, ", ")
}
