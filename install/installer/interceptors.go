// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// A version that was never complete can have objects that intercept requests, such as a webhook whose server never started. They can reject
// each write of the version that replaces it. So they are deleted before that version is applied. The API server never sends webhook
// configurations and admission policies through admission, so these deletions are not intercepted themselves.
//
// An object that the current version has too stays: a provider that works can depend on it. The error of the blocked version then has the
// command that deletes it. The superseded version does not write it: an administrator may have deleted it a moment ago, or changed it. A
// conversion webhook stays with its CRD: it intercepts no write of another object.

// leaves reports whether a superseded version does not write objects of a kind: interceptors, and CRDs, whose storage version the next version
// changes step by step. Otherwise both would change it in turn, and no instance would stay where the next version needs it.
func leaves(kind schema.GroupKind) bool {
	return kind == object.CustomResourceDefinition || slices.Contains(interceptors, kind)
}

// interceptors are the kinds of objects that intercept requests for other objects, a binding before its policy.
var interceptors = []schema.GroupKind{
	object.ValidatingWebhookConfiguration, object.MutatingWebhookConfiguration, object.ValidatingAdmissionPolicyBinding, object.ValidatingAdmissionPolicy,
	object.MutatingAdmissionPolicyBinding, object.MutatingAdmissionPolicy, object.APIService,
}

// interceptingObject is an object of a version that was never complete.
type interceptingObject struct {
	engine.Reference
	owner, version string
}

// disarmed is the result of deleting interceptors.
type disarmed struct {
	deleted []string
	// shared are the commands that delete the interceptors that stay, because the current version has them too.
	shared []string
}

// superseded returns the entries of the versions that were superseded before they were complete.
func (s state) superseded() (found []v1alpha1.Version) {
	current := s.Cluster.Status.Version(s.Cluster.Status.CurrentVersion)
	for _, entry := range s.Cluster.Status.Versions {
		if entry.Name != s.Cluster.Status.DesiredVersion && (current == nil || entry.Revision > current.Revision) {
			found = append(found, entry)
		}
	}
	return found
}

// disarmer deletes interceptors.
type disarmer struct {
	applier *Applier
	live    client.Reader
	writer  client.Writer
}

// disarm deletes the interceptors of superseded versions that were never complete.
func (d disarmer) disarm(ctx context.Context, s state) (out disarmed, err error) {
	entries := s.superseded()
	if len(entries) == 0 {
		return out, nil
	}
	used := s.currentParts().Union(s.reportedParts(s.Cluster.Status.DesiredVersion))
	kept, err := d.currentObjects(s)
	if err != nil {
		return out, err
	}
	var failed []error
	for _, entry := range entries {
		found, err := d.interceptorsOf(ctx, s, entry, used)
		failed = append(failed, err)
		for _, i := range found {
			if kept[i.Identity] != nil {
				out.shared = append(out.shared, guard.Deletion(i.Identity))
				continue
			}
			gone, err := d.delete(ctx, i)
			if failed = append(failed, err); gone {
				out.deleted = append(out.deleted, i.String()+" of version "+i.version)
				log.FromContext(ctx).Info("Deleted an object that intercepts requests, because its version was never complete", "object", i.String(), "version", i.version)
			}
		}
	}
	return out, errors.Join(failed...)
}

// currentObjects returns the objects of the current version; none while there is none.
func (d disarmer) currentObjects(s state) (map[object.Identity]*unstructured.Unstructured, error) {
	entry := s.Cluster.Status.Version(s.Cluster.Status.CurrentVersion)
	if entry == nil {
		return nil, nil
	}
	p, err := d.applier.plans.stored(s, *entry)
	return revision.ByIdentity(p.phases), err
}

// interceptorsOf returns the interceptors that a version controls, as the cache shows them, without the parts of others.
func (d disarmer) interceptorsOf(ctx context.Context, s state, entry v1alpha1.Version, others sets.Set[revision.Part]) (found []interceptingObject, err error) {
	v, err := s.load(entry)
	if err != nil {
		return nil, err
	}
	p, err := d.applier.prepare(ctx, v, others)
	if err != nil {
		return nil, err
	}
	for _, kind := range interceptors {
		for phase, obj := range revision.Objects(p.phases) {
			if object.GroupKind(obj) != kind {
				continue
			}
			i := interceptingObject{engine.ReferenceTo(obj), phase.Owner, entry.Name}
			actual, err := i.Read(ctx, d.applier.Engine.Reader)
			if err == nil && d.applier.Engine.Owners.Controls(i.owner, actual) {
				found = append(found, i)
			}
		}
	}
	return found, nil
}

// delete deletes an interceptor unless the API server shows that its version does not control it.
func (d disarmer) delete(ctx context.Context, i interceptingObject) (deleted bool, err error) {
	actual, err := i.Read(ctx, d.live)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading %s: %w", i, err)
	}
	if !d.applier.Engine.Owners.Controls(i.owner, actual) || actual.GetDeletionTimestamp() != nil {
		return false, nil
	}
	if err := d.writer.Delete(ctx, actual, client.Preconditions(object.AsRead(actual))); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting %s, which intercepts requests for version %s, which was never complete: %w", i, i.version, err)
	}
	return true, nil
}

// events returns the event about deleted interceptors.
func (d disarmed) events() []status.Event {
	if d.deleted == nil {
		return nil
	}
	return []status.Event{{Reason: status.InterceptorsRemoved, Warning: true,
		Message: "objects that intercept requests were deleted, because their version was never complete: " + strings.Join(d.deleted, ", ")}}
}

// explain adds the commands for the interceptors that stay to the error of a version that may be blocked by them.
func (d disarmed) explain(outcome status.Outcome) status.Outcome {
	if outcome.Err != nil && d.shared != nil {
		outcome.Err = fmt.Errorf("%w; if a webhook or a policy of a version that was never complete rejects the requests, delete it; the installer creates it again: %s",
			outcome.Err, strings.Join(d.shared, "; "))
	}
	return outcome
}
