// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/manifests"
)

// transport reads the transport ConfigMaps of a release.
type transport struct {
	reader  client.Reader // of the cache
	live    client.Reader
	release string
	// namespace is the namespace of the ConfigMaps.
	namespace string
}

// bundles returns the bundles in the transport ConfigMaps of the release, and
// the bundles that exist only for other releases. Every bundle has an error while the
// admission policy for the ConfigMaps is missing, and so has a bundle with a ConfigMap that is older than the policy and its binding are in force:
// the creation time cannot be forged.
func (t transport) bundles(ctx context.Context) ([]extractor.Result, []*configmap.OtherError, error) {
	configMaps := &corev1.ConfigMapList{}
	if err := t.reader.List(ctx, configMaps, client.InNamespace(t.namespace), client.HasLabels{configmap.BundleLabel}); err != nil {
		return nil, nil, fmt.Errorf("listing transport ConfigMaps: %w", err)
	}
	if len(configMaps.Items) == 0 {
		return nil, nil, nil
	}
	results, err := configmap.Bundles(configMaps.Items, t.release)
	if err != nil {
		return nil, nil, err
	}
	since, policyErr := t.checkPolicy(ctx)
	if policyErr != nil && !errors.As(policyErr, new(*PolicyError)) {
		return nil, nil, policyErr
	}
	for i := range results {
		results[i].Err = errors.Join(results[i].Err, policyErr)
		if older := t.older(configMaps.Items, results[i].Image.Name, since); len(older) > 0 {
			results[i].Err = errors.Join(results[i].Err, &PolicyError{Namespace: t.namespace, Older: older})
		}
	}
	return results, configmap.Others(configMaps.Items, t.release), nil
}

// enforcement is the time until all API servers enforce an admission policy, plus a second because creation times have no fractions.
const enforcement = 3 * time.Second

// older returns the ConfigMaps of a bundle in this release that were created before a policy from since is in force.
func (t transport) older(configMaps []corev1.ConfigMap, bundle string, since metav1.Time) (names []string) {
	for _, configMap := range configMaps {
		release := configMap.Annotations[configmap.ReleaseVersion]
		if configMap.Labels[configmap.BundleLabel] == bundle && (release == t.release || release == "") && configMap.CreationTimestamp.Time.Before(since.Add(enforcement)) {
			names = append(names, configMap.Name)
		}
	}
	return names
}

// pendingBundles returns the bundles of other releases whose provider is installed
// from ConfigMaps and has no bundle of this release yet. The cluster version
// operator has not written its ConfigMaps yet, and the provider must not be
// uninstalled meanwhile.
func pendingBundles(former []v1alpha1.Component, bundles []extractor.Bundle, others []*configmap.OtherError) []*configmap.OtherError {
	return slices.DeleteFunc(slices.Clone(others), func(other *configmap.OtherError) bool {
		was := slices.ContainsFunc(former, func(c v1alpha1.Component) bool {
			return len(c.ConfigMaps) > 0 && c.Name == other.Provider && c.Type == string(other.Type)
		})
		return !was || operand.Has(bundles, v1alpha1.Component{Name: other.Provider, Type: string(other.Type)})
	})
}

// droppedBundles returns an error for each component whose ConfigMaps, of this
// release, are all gone, if the provider has no other bundle. Only the next release
// may drop a provider.
func droppedBundles(former []v1alpha1.Component, bundles []extractor.Bundle, results []extractor.Result) error {
	var errs []error
	for _, component := range former {
		exists := slices.ContainsFunc(results, func(r extractor.Result) bool { return r.Image.Reference == "" && r.Image.Name == component.Source })
		if len(component.ConfigMaps) == 0 || exists || operand.Has(bundles, component) {
			continue
		}
		errs = append(errs, &configmap.Error{ConfigMap: strings.Join(component.ConfigMaps, ", "), Err: fmt.Errorf(
			"not found; provider %s (%s), whose manifests it contained, is not uninstalled", component.Name, component.Type)})
	}
	return errors.Join(errs...)
}

func join(others []*configmap.OtherError) error {
	errs := make([]error, len(others))
	for i, other := range others {
		errs[i] = other
	}
	return errors.Join(errs...)
}

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
