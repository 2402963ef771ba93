// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// judgement is the result of the preflight of a version.
type judgement struct {
	version  string
	findings []guard.Finding
	// accepted are the risks that the administrator accepts.
	accepted []v1alpha1.AcceptedRisk
}

// blocking returns the findings that stop the version.
func (j judgement) blocking() []guard.Finding { return guard.Blocking(j.findings) }

// with adds the findings that stop the version to an error.
func (j judgement) with(err error) error {
	if j.blocking() == nil {
		return err
	}
	blocked := j.outcome()
	return fmt.Errorf("%w; %s", err, reason.Of(blocked.Reason).WithStep(blocked.Message))
}

// outcome returns the outcome of a version that findings stop: the first reason, with all findings.
func (j judgement) outcome() status.Outcome {
	messages := map[reason.Reason][]string{}
	var reasons []reason.Reason
	for _, finding := range j.blocking() {
		if messages[finding.Reason] == nil {
			reasons = append(reasons, finding.Reason)
		}
		messages[finding.Reason] = append(messages[finding.Reason], finding.Message)
	}
	var out status.Outcome
	for i, why := range reasons {
		message := j.describe(why, messages[why])
		if i == 0 {
			out = status.Outcome{Reason: why, Message: message}
		} else {
			out.Message = reason.Of(why).WithStep(message) + "; " + out.Message
		}
	}
	return out
}

// describe returns the message about the findings with a reason.
func (j judgement) describe(why reason.Reason, messages []string) string {
	switch why {
	case reason.Collision:
		return strings.Join(messages, "; ")
	case reason.RiskNotAccepted:
		return "version " + j.version + " has risks: " + strings.Join(messages, "; ") + "; to accept: " + j.acceptance()
	default:
		return "version " + j.version + " is not installed, because the API server rejects changes: " + strings.Join(messages, "; ")
	}
}

// acceptance returns the command that accepts the risks.
func (j judgement) acceptance() string {
	accepted := slices.Clone(j.accepted)
	for _, finding := range j.blocking() {
		if risk := (v1alpha1.AcceptedRisk{Name: finding.Risk, Release: revision.Release(j.version)}); finding.Risk != "" && !slices.Contains(accepted, risk) {
			accepted = append(accepted, risk)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"acceptedRisks": accepted}})
	if err != nil {
		return err.Error() // texts can always be encoded
	}
	return "kubectl patch clusterapi " + v1alpha1.ClusterAPIName + " --type=merge -p '" + string(patch) + "'"
}

// passed is a version that nothing stops, with the key of its plan and the notes about it.
type passed struct {
	version, key string
	notes        []guard.Finding
	// created are the objects that the API server has accepted although they do not exist; none after an error.
	created sets.Set[object.Identity]
}

// hasBegun reports whether objects of a version were applied: they must be maintained.
func hasBegun(version *v1alpha1.Version) bool {
	return version != nil && slices.ContainsFunc(version.Phases, func(phase v1alpha1.Phase) bool {
		return phase.Name != revision.Preflight && phase.State != v1alpha1.PhasePending
	})
}

// trial judges a version before its first object is written, and prepares the cluster for its phases.
type trial struct {
	guards *guard.Guards
	passed *passed
	plans  *planner
	engine *engine.Engine
	s      state
	plan   plan
	// adoptable are the CRDs that are no longer unmanaged.
	adoptable adoption.Candidates
}

// trial returns the trial of an attempt.
func (r *Applier) trial(s state, a attempt) trial {
	return trial{&r.Guards, &r.passed, &r.plans, r.Engine, s, a.plan, a.former}
}

// findings returns the findings about a version that is going to be rolled out.
func (t trial) findings(ctx context.Context) ([]guard.Finding, error) {
	if t.passed.key == t.plan.key() {
		return t.passed.notes, nil
	}
	if t.guards.Live == nil {
		return nil, nil
	}
	found, created, err := t.judge(ctx)
	if err == nil && guard.Blocking(found) == nil {
		*t.passed = passed{t.plan.name, t.plan.key(), found, created}
	}
	return found, err
}

// judge returns the findings about a version, and its objects that do not exist and that the API server accepts.
func (t trial) judge(ctx context.Context) (found []guard.Finding, created sets.Set[object.Identity], err error) {
	if hasBegun(t.s.Cluster.Status.Version(t.plan.name)) { // an earlier process has judged it
		return guard.Lasting(t.release()), nil, nil
	}
	release := t.release()
	if t.s.Cluster.Status.CurrentVersion != "" {
		release.Upgrade = t.engine.Upgrade(t.plan.revision(), engine.Remembered(t.plans.older(t.s)))
	}
	if found, created, err = guard.Check(ctx, t.guards, release); err != nil {
		return nil, nil, fmt.Errorf("checking version %s before its first write: %w", t.plan.name, err)
	}
	return found, created, nil
}

// release returns the release of an attempt.
func (t trial) release() guard.Release {
	name, reported := t.plan.name, t.s.Cluster.Status
	out := guard.Release{
		Namespace: t.s.namespaces.Operator,
		Version:   revision.Release(name), Phases: t.plan.phases, Unchanged: t.plan.others,
		Adoptable: t.adoptable.Adoptable, Accepted: t.s.Cluster.Spec.AcceptedRisks,
	}
	if entry := reported.Version(name); entry != nil {
		out.Components = entry.Components
	}
	if current := reported.Version(reported.CurrentVersion); current != nil {
		out.Installed = current.Components
		out.InstalledObjects = t.plans.objectsOf(t.s, *current)
	}
	return out
}
