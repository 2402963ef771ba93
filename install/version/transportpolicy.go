// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/manifests"
)

// TransportPolicyName is the name of the admission policy, and of its binding, that
// allows only the cluster version operator to write transport ConfigMaps.
const TransportPolicyName = "openshift-capi-installer-transport"

// PolicyError reports that the admission policy for transport ConfigMaps, or its
// binding, is missing or modified, or was not in force when ConfigMaps were created. Without it, any user could write ConfigMaps
// whose content is installed with the installer's permissions.
type PolicyError struct {
	// Namespace is the namespace of the transport ConfigMaps.
	Namespace string
	// Older are the names of ConfigMaps that were created before the policy was in force; only Namespace is set in addition.
	Older []string
	// Kind and Name identify the policy or the binding.
	Kind, Name string
	// Differs lists the fields that differ from the release; empty if the object is
	// missing.
	Differs []string
}

func (e *PolicyError) Error() string {
	if len(e.Older) > 0 {
		return fmt.Sprintf("ignoring transport ConfigMaps in %s that were created before the admission policy %s was in force, because any user could have written them: "+
			"%s; delete them, so that the cluster version operator creates them again", e.Namespace, TransportPolicyName, strings.Join(e.Older, ", "))
	}
	state := "is missing"
	if len(e.Differs) > 0 {
		state = "differs from the release in " + strings.Join(e.Differs, ", ")
	}
	return fmt.Sprintf("ignoring transport ConfigMaps in %s: %s %q, which restricts writes to the cluster version operator, %s",
		e.Namespace, e.Kind, e.Name, state)
}

// checkPolicy returns joined *PolicyErrors unless the policy and its
// binding exist as in the release. since is the creation time of the younger one. It reads from the API server.
func (t transport) checkPolicy(ctx context.Context) (since metav1.Time, _ error) {
	objects, err := transportPolicy()
	if err != nil {
		return since, err
	}
	var errs []error
	for _, object := range objects {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(object.GroupVersionKind())
		err := t.live.Get(ctx, client.ObjectKeyFromObject(object), found)
		policyErr := &PolicyError{Namespace: t.namespace, Kind: object.GetKind(), Name: object.GetName()}
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, policyErr)
		case err != nil:
			return since, fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
		default:
			if created := found.GetCreationTimestamp(); since.Before(&created) {
				since = created
			}
			if policyErr.Differs = differs(object, found); len(policyErr.Differs) > 0 {
				errs = append(errs, policyErr)
			}
		}
	}
	return since, errors.Join(errs...)
}

// transportPolicy returns the policy and its binding from the release.
func transportPolicy() ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Objects()
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != TransportPolicyName })
	if len(found) != 2 {
		return nil, fmt.Errorf("the release has %d objects named %s, want a policy and a binding", len(found), TransportPolicyName)
	}
	return found, nil
}

// differs returns the fields that differ between the specs. The release sets every field that has a default.
func differs(want, got *unstructured.Unstructured) []string {
	var fields []string
	a, _, _ := unstructured.NestedMap(want.Object, "spec")
	b, _, _ := unstructured.NestedMap(got.Object, "spec")
	for field := range sets.KeySet(a).Union(sets.KeySet(b)) {
		if !equality.Semantic.DeepEqual(a[field], b[field]) {
			fields = append(fields, "spec."+field)
		}
	}
	if got.GetDeletionTimestamp() != nil {
		fields = append(fields, "metadata.deletionTimestamp")
	}
	slices.Sort(fields)
	return fields
}
