// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/object"
)

// A release that exceeds a quota would stop in its middle: with a Deployment whose pods are not created. Counted are new objects, the
// pods of new Deployments, and the additional pods while a changed Deployment is rolled out. Phases follow each other, so the largest
// number of additional pods of a phase counts. A Deployment whose rollout has not ended can already have its additional pods: it needs
// none, so that a release that fails can be replaced.
//
// Quotas with scopes, and quotas that reject pods without requests or limits, are left to the API server: scopes depend on the pods that
// admission plugins change, and a LimitRange can set defaults.

// need is the demand of a release in a namespace.
type need struct {
	lasting corev1.ResourceList
	surge   map[string]corev1.ResourceList // by phase
}

// quotas returns the findings about quotas that the release exceeds.
func quotas(ctx context.Context, cluster Cluster, objects []judged) ([]Finding, error) {
	needs := map[string]*need{}
	var errs []error
	for _, one := range objects {
		namespace := one.desired.GetNamespace()
		if namespace == "" || !one.missing && !one.rolls {
			continue
		}
		if needs[namespace] == nil {
			needs[namespace] = &need{lasting: corev1.ResourceList{}, surge: map[string]corev1.ResourceList{}}
		}
		errs = append(errs, needs[namespace].add(one))
	}
	var found []Finding
	for _, namespace := range slices.Sorted(maps.Keys(needs)) {
		all, err := cluster.Quotas(ctx, namespace)
		errs = append(errs, err)
		for i := range all {
			found = append(found, needs[namespace].total().exceeded(&all[i])...)
		}
	}
	return found, errors.Join(errs...)
}

// add adds an object that is created, or a Deployment that is rolled out.
func (n *need) add(one judged) error {
	if one.missing {
		add(n.lasting, counts(one.desired), 1)
	}
	if object.GroupKind(one.desired) != object.Deployment {
		return nil
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.desired.Object, deployment); err != nil {
		return fmt.Errorf("decoding %s: %w", object.Describe(one.desired), err)
	}
	pod := podUsage(&corev1.Pod{Spec: deployment.Spec.Template.Spec})
	if one.missing {
		add(n.lasting, pod, replicasOf(deployment.Spec))
		return nil
	}
	if n.surge[one.phase] == nil {
		n.surge[one.phase] = corev1.ResourceList{}
	}
	add(n.surge[one.phase], pod, Surge(deployment.Spec))
	return nil
}

// usage is an amount of each resource of quotas.
type usage corev1.ResourceList

// total returns the lasting need with the largest surge of a phase.
func (n *need) total() usage {
	largest := corev1.ResourceList{}
	for _, surge := range n.surge {
		for name, amount := range surge {
			if amount.Cmp(largest[name]) > 0 {
				largest[name] = amount
			}
		}
	}
	out := n.lasting.DeepCopy()
	add(out, largest, 1)
	return usage(out)
}

// exceeded returns a finding for each resource of a quota of which less is left.
func (u usage) exceeded(quota *corev1.ResourceQuota) (found []Finding) {
	if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		needed, used, left := u[name], quota.Status.Used[name], quota.Status.Hard[name].DeepCopy()
		left.Sub(used)
		if needed.Sign() > 0 && needed.Cmp(left) > 0 {
			found = append(found, Finding{Reason: reason.RiskNotAccepted, Risk: v1alpha1.ExceededQuota, Message: fmt.Sprintf(
				"ResourceQuota %s/%s: the release needs %s more of %s, and %s are left", quota.Namespace, quota.Name, needed.String(), name, left.String())})
		}
	}
	return found
}

// add adds an amount n times.
func add(to, amount corev1.ResourceList, n int) {
	for name, quantity := range amount {
		sum := to[name]
		for range n {
			sum.Add(quantity)
		}
		to[name] = sum
	}
}

// counts returns the resources of quotas that count an object. Some kinds of the core group have a second name.
func counts(obj *unstructured.Unstructured) corev1.ResourceList {
	plural, _ := meta.UnsafeGuessKindToResource(obj.GroupVersionKind())
	one := resource.MustParse("1")
	if plural.Group != "" {
		return corev1.ResourceList{corev1.ResourceName("count/" + plural.Resource + "." + plural.Group): one}
	}
	return corev1.ResourceList{corev1.ResourceName("count/" + plural.Resource): one, corev1.ResourceName(plural.Resource): one}
}

// podUsage returns the usage of a pod.
func podUsage(pod *corev1.Pod) corev1.ResourceList {
	one := resource.MustParse("1")
	out := corev1.ResourceList{corev1.ResourcePods: one, "count/pods": one}
	for name, amount := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		out[name], out[corev1.DefaultResourceRequestsPrefix+name] = amount, amount
	}
	for name, amount := range resourcehelper.PodLimits(pod, resourcehelper.PodResourcesOptions{}) {
		out["limits."+name] = amount
	}
	return out
}

// replicasOf returns the number of pods of a Deployment.
func replicasOf(spec appsv1.DeploymentSpec) int {
	if spec.Replicas == nil {
		return 1
	}
	return int(*spec.Replicas)
}

// Surge returns the number of additional pods while a Deployment is rolled out; 0 if it has no pods.
func Surge(spec appsv1.DeploymentSpec) int {
	strategy := spec.Strategy
	if strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0
	}
	surge := intstr.FromString("25%") // the default
	if strategy.RollingUpdate != nil && strategy.RollingUpdate.MaxSurge != nil {
		surge = *strategy.RollingUpdate.MaxSurge
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(&surge, replicasOf(spec), true)
	if err != nil {
		return 0 // the API server rejects the Deployment
	}
	return number
}

// rolls reports whether an installed Deployment has all its pods, and gets another pod template.
func (r Release) rolls(desired, actual *unstructured.Unstructured) bool {
	if object.GroupKind(desired) != object.Deployment {
		return false
	}
	deployment := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(actual.Object, deployment); err != nil || deployment.Spec.Replicas == nil {
		return false
	}
	number, s := *deployment.Spec.Replicas, deployment.Status
	ended := s.ObservedGeneration == deployment.Generation && s.Replicas == number && s.UpdatedReplicas == number && s.AvailableReplicas == number
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": object.MapAt(desired.Object, "spec", "template")}}}
	return ended && predecessor.ActionFor(r.Namespace, template, actual) == predecessor.Change
}
