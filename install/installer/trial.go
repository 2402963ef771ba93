// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/rehearsal"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/permission"
)

// trial judges a version before its first object is written.
type trial struct {
	*Applier
	s    state
	plan plan
	// adoptable are the CRDs that are no longer unmanaged.
	adoptable adoption.Candidates
}

// findings returns the findings about a version that is going to be rolled out.
func (t trial) findings(ctx context.Context) ([]preflight.Finding, error) {
	p := &t.Preflight
	if p.passed == t.plan.key() {
		return p.notes, nil
	}
	if p.Live == nil {
		return nil, nil
	}
	found, err := t.judgeAndRehearse(ctx)
	if err == nil && preflight.Blocking(found) == nil {
		p.passed, p.notes = t.plan.key(), found
	}
	return found, err
}

// judgeAndRehearse returns the findings about a version. If there are none that stop it, its pods are rehearsed; then the version is judged again, because
// time has passed.
func (t trial) judgeAndRehearse(ctx context.Context) (found []preflight.Finding, err error) {
	rehearsing := t.Rehearsal.of(t.plan)
	if !rehearsing {
		if found, err = t.judge(ctx, t.Engine.Reader); err != nil || preflight.Blocking(found) != nil {
			return found, err
		}
	}
	tested, err := t.rehearse(ctx)
	if err != nil || preflight.Blocking(tested) != nil {
		return tested, err
	}
	if rehearsing {
		found, err = t.judge(ctx, t.Engine.Reader)
	}
	return append(found, tested...), err
}

// judge returns the findings about a version. Without a cache, all objects are read from the API server.
func (t trial) judge(ctx context.Context, cache client.Reader) (found []preflight.Finding, err error) {
	if hasBegun(t.s.Cluster.Status.Version(t.plan.name)) { // an earlier process has judged it
		found, err = preflight.Lasting(t.release())
	} else {
		found, err = preflight.Check(ctx, observed{cache, &existing{live: t.Preflight.Live}, &t.Preflight}, t.release())
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

// rehearse creates the pods of a rehearsal, and deletes them when all are proved. It returns a waitingError until then, and findings that stop
// the version for pods that do not start.
func (t trial) rehearse(ctx context.Context) ([]preflight.Finding, error) {
	h, p := &t.Rehearsal, t.plan
	if h.Pod == "" || rehearsed(t.s) != p.name {
		return nil, nil
	}
	if h.key != p.key() {
		planned, err := t.rehearsalOf(ctx)
		if err != nil {
			return nil, err
		}
		h.key, h.planned, h.passed, h.failed = p.key(), planned, len(planned.Pods) == 0, map[string]string{}
	}
	if h.passed {
		return h.notes(), nil
	}
	pods, err := h.list(ctx, client.MatchingLabels{v1alpha1.RehearsalLabel: p.name})
	if err != nil {
		return nil, err
	}
	verdicts, err := h.run(ctx, pods)
	if err != nil {
		return nil, err
	}
	if found, err := conclusion(verdicts); found != nil || err != nil {
		return found, err
	}
	for i := range pods {
		if err := h.delete(ctx, &pods[i]); err != nil {
			return nil, err
		}
	}
	for _, verdict := range verdicts {
		if verdict.State == rehearsal.Unproven {
			h.planned.Omitted = append(h.planned.Omitted, verdict.Cause)
		}
	}
	h.passed = true
	return h.notes(), nil
}

// rehearsalOf returns the rehearsal of a version. It has no pods if the installer cannot read its own pod, or cannot create any.
func (t trial) rehearsalOf(ctx context.Context) (rehearsal.Plan, error) {
	self := &corev1.Pod{}
	err := t.Rehearsal.Live.Get(ctx, client.ObjectKey{Namespace: t.s.namespaces.Operator, Name: t.Rehearsal.Pod}, self)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return rehearsal.Plan{Omitted: []string{"any Deployment, because the image of the installer is unknown: " + err.Error()}}, nil
	case err != nil:
		return rehearsal.Plan{}, fmt.Errorf("reading the installer's pod: %w", err)
	}
	planned, err := rehearsal.Of(rehearsal.Release{
		Version: t.plan.name, Phases: t.plan.phases, Installed: t.plans.objectsOf(t.s, *t.s.Cluster.Status.Version(t.s.Cluster.Status.CurrentVersion)), Namespaces: t.Rehearsal.Namespaces,
	}, t.Rehearsal.program(self))
	if err != nil || len(planned.Pods) == 0 || t.Permissions.Reviews == nil {
		return planned, err
	}
	namespaces := sets.New[string]()
	for _, pod := range planned.Pods {
		namespaces.Insert(pod.Namespace)
	}
	for _, namespace := range sets.List(namespaces) {
		denied, err := t.Permissions.denied(ctx, permission.Rehearsals(namespace))
		if err != nil {
			return rehearsal.Plan{}, err
		}
		if denied != nil {
			return rehearsal.Plan{Omitted: []string{"any Deployment, because service account " + v1alpha1.ServiceAccountName + " " + denied[0].String()}}, nil
		}
	}
	return planned, nil
}
