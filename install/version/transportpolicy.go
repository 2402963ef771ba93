// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/manifests"
)

// GuardName is the name of the admission policy, and of its binding, that keeps
// everybody but the cluster version operator from writing transport ConfigMaps.
const GuardName = "openshift-capi-installer-transport"

// GuardError says that an object which guards transport ConfigMaps is not there
// as the release has it. What the ConfigMaps hold could then be anybody's, and would be
// installed with the installer's rights.
type GuardError struct {
	// Kind and Name are those of the object.
	Kind, Name string
	// Differs are the fields that are not the release's; none if the object is missing.
	Differs []string
}

func (e *GuardError) Error() string {
	what := "is missing"
	if len(e.Differs) > 0 {
		what = "is not that of the release, in " + strings.Join(e.Differs, ", ")
	}
	return fmt.Sprintf("transport ConfigMaps are not used, because %s %s, which lets only the cluster version operator write them in %s, %s",
		e.Kind, e.Name, v1alpha1.OperandNamespace, what)
}

// guarded returns an error, joined of *GuardErrors, unless the policy and its
// binding are in the cluster as the release has them. It asks the API server.
func (r *Reconciler) guarded(ctx context.Context) error {
	wanted, err := guards()
	if err != nil {
		return err
	}
	var errs []error
	for _, object := range wanted {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(object.GroupVersionKind())
		err := r.Live.Get(ctx, client.ObjectKeyFromObject(object), found)
		guard := &GuardError{Kind: object.GetKind(), Name: object.GetName()}
		switch {
		case apierrors.IsNotFound(err):
			errs = append(errs, guard)
		case err != nil:
			return fmt.Errorf("reading %s %s: %w", object.GetKind(), object.GetName(), err)
		default:
			if guard.Differs, err = differs(object, found); err != nil {
				return err
			}
			if len(guard.Differs) > 0 {
				errs = append(errs, guard)
			}
		}
	}
	return errors.Join(errs...)
}

// guards are the policy and its binding, as the release brings them.
func guards() ([]*unstructured.Unstructured, error) {
	objects, err := manifests.Objects()
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetName() != GuardName })
	if len(found) != 2 {
		return nil, fmt.Errorf("the release has %d objects named %s, and should have a policy and a binding", len(found), GuardName)
	}
	return found, nil
}

// differs returns the fields of the specs that are not the same. Whatever the
// release does not say is as the API server defaults it.
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
	for field := range maps.Keys(mergeKeys(a, b)) {
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

func mergeKeys(a, b map[string]any) map[string]any {
	merged := maps.Clone(a)
	maps.Copy(merged, b)
	return merged
}

// spec is the spec of a policy or a binding with the API server's defaults.
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
