// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/podproblem"
)

// lateAfter is how long a Deployment may be unavailable before its pods are read: one that becomes available by then needs no
// explanation. While the Deployment is late they are read again after the same time, because a change of a pod causes no
// reconcile: pods are not watched.
const lateAfter = 10 * time.Second

// podReader reads the pods of late Deployments.
type podReader struct {
	live client.Reader
	log  *rolloutLog
}

// explain returns the result with a cause for each late Deployment: the problem of its pods. It returns the time until an
// explanation is due; 0 if no Deployment is waited for. A cause that cannot be read is omitted.
func (r podReader) explain(ctx context.Context, result engine.Result, entry v1alpha1.Version, now time.Time) (explained engine.Result, next time.Duration) {
	explained = result
	explained.Phases = slices.Clone(result.Phases)
	for i := range explained.Phases {
		objects := slices.Clone(explained.Phases[i].Objects)
		for j := range objects {
			if objects[j].Ready || objects[j].GroupKind != object.Deployment {
				continue
			}
			left := lateAfter
			if since := waitingSince(entry, objects[j].String()); !since.IsZero() {
				left = lateAfter - now.Sub(since)
			}
			if left <= 0 {
				objects[j].Cause, objects[j].Crashes = r.causeOf(ctx, objects[j].Reference)
				left = lateAfter
			}
			next = min(cmp.Or(next, left), left)
		}
		explained.Phases[i].Objects = objects
	}
	return explained, next
}

// waitingSince returns the time since when the status of a version says that a phase waits for an object; zero if it does not.
func waitingSince(entry v1alpha1.Version, name string) time.Time {
	for _, phase := range entry.Phases {
		for _, waiting := range phase.WaitingFor {
			if waiting.Object == name {
				return waiting.Since.Time
			}
		}
	}
	return time.Time{}
}

// causeOf reads the pods of a Deployment, and the warnings about them if their status has no cause.
func (r podReader) causeOf(ctx context.Context, reference engine.Reference) (cause string, crashes bool) {
	deployment := &appsv1.Deployment{}
	if err := r.live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, deployment); err != nil {
		return r.unread(ctx, err), false
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return r.unread(ctx, err), false
	}
	pods := &corev1.PodList{}
	if err := r.live.List(ctx, pods, client.InNamespace(reference.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return r.unread(ctx, err), false
	}
	events := &corev1.EventList{}
	if err := r.live.List(ctx, events, client.InNamespace(reference.Namespace), warnings, client.Limit(maxEvents)); err != nil {
		_ = r.unread(ctx, err) // the status of the pods may have the cause
	}
	cause, crashes = podproblem.OfPods(pods.Items, events.Items)
	return cmp.Or(cause, podproblem.OfDeployment(*deployment, events.Items)), crashes
}

// warnings selects events.
var warnings = client.MatchingFields{"type": corev1.EventTypeWarning}

// maxEvents limits the warnings that are read.
const maxEvents = 500

// unread logs that pods cannot be read. Their absence and missing permissions are no problem of the rollout.
func (r podReader) unread(ctx context.Context, err error) string {
	if !apierrors.IsNotFound(err) {
		r.log.error(ctx, "Pods of a late Deployment not read", err)
	}
	return ""
}
