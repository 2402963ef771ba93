// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Preflight judges a version before its first object is written. It judges a version until nothing stops it, at each reconcile: an
// event of an installed object causes one, and other objects are checked again after some seconds.
type Preflight struct {
	// Live reads objects that the cache does not have; nil skips the preflight.
	Live client.Reader
	// DryRuns sends the dry runs.
	DryRuns client.Writer
	// Instance names an instance of a CRD; empty if there are none.
	Instance func(ctx context.Context, crd *unstructured.Unstructured) (string, error)

	// passed is the key of the plan that nothing stops, and notes are the findings about it.
	passed string
	notes  []preflight.Finding

	deletions deletions
}

// trial judges an attempt at a version before its first object is written.
type trial struct {
	*Applier
	s state
	a attempt
}

// findings returns the findings about a version that is going to be rolled out.
func (t trial) findings(ctx context.Context) ([]preflight.Finding, error) {
	p := &t.Preflight
	if p.passed == t.a.plan.key() {
		return p.notes, nil
	}
	if p.Live == nil {
		return nil, nil
	}
	found, err := t.judgeAndRehearse(ctx)
	if err == nil && preflight.Blocking(found) == nil {
		p.passed, p.notes = t.a.plan.key(), found
	}
	return found, err
}

// judgeAndRehearse returns the findings about a version. If there are none that stop it, its pods are rehearsed; then the version is judged again, because
// time has passed.
func (t trial) judgeAndRehearse(ctx context.Context) (found []preflight.Finding, err error) {
	rehearsing := t.Rehearsal.of(t.a.plan)
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
	if hasBegun(t.s.Cluster.Status.Version(t.a.plan.name)) { // an earlier process has judged it
		found, err = preflight.Lasting(t.release())
	} else {
		found, err = preflight.Check(ctx, observed{cache, &existing{live: t.Preflight.Live}, &t.Preflight}, t.release())
	}
	if err != nil {
		return nil, fmt.Errorf("checking version %s before its first write: %w", t.a.plan.name, err)
	}
	t.Preflight.deletions.add(t.a.plan.name, deletedBy(found))
	return found, nil
}

// unpermitted returns an attempt for which permissions are missing, with the other findings, so that the administrator sees all at once.
// The cache cannot watch kinds without permission.
func (r *Applier) unpermitted(ctx context.Context, s state, a attempt) attempt {
	if !errors.As(a.err, new(*permissionsError)) || r.Preflight.Live == nil {
		return a
	}
	a.plan = a.plan.without(s.currentParts())
	found, err := trial{r, s, a}.judge(ctx, nil)
	a.findings, a.err = found, errors.Join(a.err, err)
	return a
}

// hasBegun reports whether objects of a version were applied: they must be maintained.
func hasBegun(version *v1alpha1.Version) bool {
	return version != nil && slices.ContainsFunc(version.Phases, func(phase v1alpha1.Phase) bool {
		return phase.Name != revision.Preflight && phase.State != v1alpha1.PhasePending
	})
}

// release returns the release of an attempt.
func (t trial) release() preflight.Release {
	name, reported := t.a.plan.name, t.s.Cluster.Status
	out := preflight.Release{
		Version: revision.Release(name), Phases: t.a.plan.phases, Unchanged: t.a.plan.others,
		Adoptable: t.a.former.Adoptable, Accepted: t.s.Cluster.Spec.AcceptedRisks,
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

// observed is the cluster that the preflight reads.
type observed struct {
	cache    client.Reader
	existing *existing
	*Preflight
}

// Read implements preflight.Cluster.
func (o observed) Read(ctx context.Context, like *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GroupVersionKind())
	var err error = apierrors.NewNotFound(schema.GroupResource{Group: out.GroupVersionKind().Group, Resource: out.GetKind()}, like.GetName()) // without cache
	// The cache would watch all Secrets.
	if o.cache != nil && object.GroupKind(like) != object.Secret {
		err = o.cache.Get(ctx, client.ObjectKeyFromObject(like), out)
	}
	if apierrors.IsNotFound(err) {
		err = o.existing.get(ctx, out, client.ObjectKeyFromObject(like))
	}
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return out, err
}

// Rejection implements preflight.Cluster.
func (o observed) Rejection(ctx context.Context, desired, _ *unstructured.Unstructured) error {
	return o.DryRuns.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired.DeepCopy()), client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership, client.DryRunAll)
}

// Instance implements preflight.Cluster.
func (o observed) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	found, err := o.Preflight.Instance(ctx, crd)
	if apierrors.IsForbidden(err) {
		return "it may have instances: " + err.Error(), nil
	}
	return found, err
}

// Quotas implements preflight.Cluster.
func (o observed) Quotas(ctx context.Context, namespace string) ([]corev1.ResourceQuota, error) {
	list := &corev1.ResourceQuotaList{}
	if err := o.Live.List(ctx, list, client.InNamespace(namespace)); err != nil && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("listing the quotas of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// blocked returns the outcome of an attempt that the preflight stops: the first reason, with all findings.
func (a attempt) blocked() status.Outcome {
	messages := map[reason.Reason][]string{}
	var reasons []reason.Reason
	for _, finding := range preflight.Blocking(a.findings) {
		if messages[finding.Reason] == nil {
			reasons = append(reasons, finding.Reason)
		}
		messages[finding.Reason] = append(messages[finding.Reason], finding.Message)
	}
	var out status.Outcome
	for i, why := range reasons {
		message := a.describe(why, messages[why])
		if i == 0 {
			out = status.Outcome{Reason: why, Message: message}
		} else {
			out.Message = reason.Of(why).WithStep(message) + "; " + out.Message
		}
	}
	return out
}

// describe returns the message about the findings with a reason.
func (a attempt) describe(why reason.Reason, messages []string) string {
	switch why {
	case reason.Collision:
		return strings.Join(messages, "; ")
	case reason.RiskNotAccepted:
		return "version " + a.plan.name + " has risks: " + strings.Join(messages, "; ") + "; to accept: " + a.acceptance()
	default:
		return "version " + a.plan.name + " is not installed, because the API server rejects changes: " + strings.Join(messages, "; ")
	}
}

// acceptance returns the command that accepts the risks.
func (a attempt) acceptance() string {
	accepted := slices.Clone(a.risks)
	for _, finding := range preflight.Blocking(a.findings) {
		if risk := (v1alpha1.AcceptedRisk{Name: finding.Risk, Release: revision.Release(a.plan.name)}); finding.Risk != "" && !slices.Contains(accepted, risk) {
			accepted = append(accepted, risk)
		}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"acceptedRisks": accepted}})
	if err != nil {
		return err.Error() // texts can always be encoded
	}
	return "kubectl patch clusterapi " + v1alpha1.ClusterAPIName + " --type=merge -p '" + string(patch) + "'"
}
