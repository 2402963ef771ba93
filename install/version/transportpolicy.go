// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/manifests"
)

// TransportPolicyName is the name of the admission policy, and of its binding, that
// allows only the cluster version operator to write transport ConfigMaps.
const TransportPolicyName = "openshift-capi-installer-transport"

// PolicyError reports that the admission policy for transport ConfigMaps, or its
// binding, is missing or modified. Without it, any user could write ConfigMaps
// whose content is installed with the installer's permissions.
type PolicyError struct {
	// Namespace is the namespace of the transport ConfigMaps.
	Namespace string
	// Kind and Name identify the policy or the binding.
	Kind, Name string
	// Differs lists the fields that differ from the release; empty if the object is
	// missing.
	Differs []string
}

func (e *PolicyError) Error() string {
	state := "is missing"
	if len(e.Differs) > 0 {
		state = "differs from the release in " + strings.Join(e.Differs, ", ")
	}
	return fmt.Sprintf("ignoring transport ConfigMaps in %s: %s %q, which restricts writes to the cluster version operator, %s",
		e.Namespace, e.Kind, e.Name, state)
}

// checkPolicy returns joined *PolicyErrors unless the policy and its
// binding exist as in the release. It reads from the API server.
func (t transport) checkPolicy(ctx context.Context) error {
	objects, err := transportPolicy()
	if err != nil {
		return err
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
			return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
		default:
			if policyErr.Differs, err = differs(object, found); err != nil {
				return err
			}
			if len(policyErr.Differs) > 0 {
				errs = append(errs, policyErr)
			}
		}
	}
	return errors.Join(errs...)
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

// differs returns the fields that differ between the specs. A field that the
// release does not set must have the API server's default.
func differs(want, got *unstructured.Unstructured) ([]string, error) {
	a, err := spec(want)
	if err != nil {
		return nil, err
	}
	b, err := spec(got)
	if err != nil {
		return nil, err
	}
	var fields []string
	for field := range sets.KeySet(a).Union(sets.KeySet(b)) {
		if !equality.Semantic.DeepEqual(a[field], b[field]) {
			fields = append(fields, "spec."+field)
		}
	}
	if got.GetDeletionTimestamp() != nil {
		fields = append(fields, "metadata.deletionTimestamp")
	}
	slices.Sort(fields)
	return fields, nil
}

// spec returns the spec of a policy or a binding with the API server's defaults.
func spec(object *unstructured.Unstructured) (map[string]any, error) {
	var typed any = &admissionv1.ValidatingAdmissionPolicyBinding{}
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	if object.GetKind() == "ValidatingAdmissionPolicy" {
		typed = policy
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	if policy.Spec.MatchConstraints != nil {
		setDefaults(policy.Spec.MatchConstraints)
	}
	converted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	found, _, err := unstructured.NestedMap(converted, "spec")
	return found, err
}

func setDefaults(match *admissionv1.MatchResources) {
	if match.ObjectSelector == nil {
		match.ObjectSelector = &metav1.LabelSelector{}
	}
	for i := range match.ResourceRules {
		if match.ResourceRules[i].Scope == nil {
			match.ResourceRules[i].Scope = new(admissionv1.AllScopes)
		}
	}
}
