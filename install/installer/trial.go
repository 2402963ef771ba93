// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// judgement is the result of the preflight of a version.
type judgement struct {
	version  string
	findings []preflight.Finding
	// accepted are the risks that the administrator accepts.
	accepted []v1alpha1.AcceptedRisk
}

// blocking returns the findings that stop the version.
func (j judgement) blocking() []preflight.Finding { return preflight.Blocking(j.findings) }

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

// trial judges a version before its first object is written, and prepares the cluster for its phases.
type trial struct {
	guards *Guards
	plans  *planner
	engine *engine.Engine
	s      state
	plan   plan
	// adoptable are the CRDs that are no longer unmanaged.
	adoptable adoption.Candidates
}

// trial returns the trial of an attempt.
func (r *Applier) trial(s state, a attempt) trial {
	return trial{&r.Guards, &r.plans, r.Engine, s, a.plan, a.former}
}

// findings returns the findings about a version that is going to be rolled out.
func (t trial) findings(ctx context.Context, cache client.Reader) ([]preflight.Finding, error) {
	if t.guards.passed.key == t.plan.key() {
		return t.guards.passed.notes, nil
	}
	if t.guards.Live == nil {
		return nil, nil
	}
	found, err := t.judge(ctx, cache)
	if err == nil && preflight.Blocking(found) == nil {
		t.guards.passed = passed{t.plan.name, t.plan.key(), found}
	}
	return found, err
}

// judge returns the findings about a version. Without a cache, all objects are read from the API server.
func (t trial) judge(ctx context.Context, cache client.Reader) (found []preflight.Finding, err error) {
	if hasBegun(t.s.Cluster.Status.Version(t.plan.name)) { // an earlier process has judged it
		found, err = preflight.Lasting(t.release())
	} else {
		release := t.release()
		if t.s.Cluster.Status.CurrentVersion != "" {
			release.Upgrade = t.engine.Upgrade(t.plan.revision(), engine.Remembered(t.plans.older(t.s)))
		}
		found, err = preflight.Check(ctx, observed{cache: cache, Guards: t.guards}, release)
	}
	if err != nil {
		return nil, fmt.Errorf("checking version %s before its first write: %w", t.plan.name, err)
	}
	return found, nil
}

// release returns the release of an attempt.
func (t trial) release() preflight.Release {
	name, reported := t.plan.name, t.s.Cluster.Status
	out := preflight.Release{
		Namespace: t.s.namespaces.Operator,
		Version:   revision.Release(name), Phases: t.plan.phases, Unchanged: t.plan.others,
		Adoptable: t.adoptable.Adoptable, Accepted: t.s.Cluster.Spec.AcceptedRisks,
	}
	if entry := reported.Version(name); entry != nil {
		out.Components = entry.Components
	}
	if current := reported.Version(reported.CurrentVersion); current != nil {
		out.Installed = current.Components
		installed := t.plans.objectsOf(t.s, *current)
		out.InstalledCRD = func(name string) *unstructured.Unstructured {
			return installed[object.Identity{GroupKind: object.CustomResourceDefinition, Name: name}]
		}
	}
	return out
}
