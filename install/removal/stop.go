// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// The managers of all providers end before anything else is removed. They work on each other's objects: one that runs while the webhooks of
// another provider are gone, or the conversion of its CRDs has ended, reads and writes objects without their defaults or their conversion.

// stopLimit is how long a removal waits for the end of pods: pods of a node that is gone never end.
const stopLimit = 2 * time.Minute

// Stop deletes the Deployments that the owners of a revision control, and returns the ones that exist or have pods. For pods it waits until the
// limit after the beginning of the removal. No event reports the end of a pod.
func (r *Remover) Stop(ctx context.Context, rev engine.Revision, began time.Time) (running []string, err error) {
	var ended []*unstructured.Unstructured
	for phase, obj := range revision.Objects(rev.Phases) {
		if object.GroupKind(obj) != object.Deployment {
			continue
		}
		actual, err := engine.ReferenceTo(obj).Read(ctx, r.Engine.Reader)
		switch {
		case apierrors.IsNotFound(err):
			ended = append(ended, obj)
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", object.Describe(obj), err)
		case r.Engine.Owners.Controls(phase.Owner, actual):
			running = append(running, object.Describe(obj))
			if err := deleteAsRead(ctx, r.Writer, actual); err != nil {
				return nil, err
			}
		}
	}
	if time.Since(began) > stopLimit {
		return running, nil
	}
	stopped, err := withPods(ctx, r.Live, ended)
	return append(running, stopped...), err
}

// deleteAsRead deletes an object of the cache, unless it is being deleted or was changed: a newer version can have adopted it.
func deleteAsRead(ctx context.Context, writer client.Writer, obj *unstructured.Unstructured) error {
	if obj.GetDeletionTimestamp() != nil {
		return nil
	}
	err := writer.Delete(ctx, obj, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions(object.AsRead(obj)))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %s: %w", object.Describe(obj), err)
	}
	return nil
}

// withPods returns the Deployments, none of which exists, that have pods.
func withPods(ctx context.Context, live client.Reader, deployments []*unstructured.Unstructured) (found []string, err error) {
	for _, deployment := range deployments {
		selector, err := selectorOf(deployment)
		if err != nil {
			return nil, err
		}
		pods := &corev1.PodList{}
		err = live.List(ctx, pods, client.InNamespace(deployment.GetNamespace()), client.MatchingLabelsSelector{Selector: selector}, client.Limit(1))
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, fmt.Errorf("listing the pods of %s: %w", object.Describe(deployment), err)
		}
		if len(pods.Items) > 0 {
			found = append(found, "the pods of "+object.Describe(deployment))
		}
	}
	return found, nil
}

// selectorOf returns the selector of the pods of a Deployment.
func selectorOf(deployment *unstructured.Unstructured) (labels.Selector, error) {
	selector := &metav1.LabelSelector{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.MapAt(deployment.Object, "spec", "selector"), selector); err != nil {
		return nil, fmt.Errorf("reading the selector of %s: %w", object.Describe(deployment), err)
	}
	return metav1.LabelSelectorAsSelector(selector)
}
