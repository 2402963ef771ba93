// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// findings returns the findings of the installer's preflight about a release.
func (i *Installed) findings(ctx context.Context, judges *judged, release guard.Release) ([]guard.Finding, error) {
	release.Accepted = i.ClusterAPI.Spec.AcceptedRisks
	release.Upgrade = fieldset.Upgrade{
		Schemas: &fieldset.Schemas{Discovery: i.cluster.Discovery}, Namespace: i.Namespace, Older: i.older, Ignored: i.Ignored,
	}
	if current := i.ClusterAPI.Status.Version(i.ClusterAPI.Status.CurrentVersion); current != nil {
		release.Installed = current.Components
		release.InstalledObjects = revision.ByIdentity([]revision.Phase{{Objects: i.objects[current.Name]}})
	}
	found, _, err := guard.Check(ctx, judges, release)
	for at := range found {
		found[at].Message = i.mask.Text(found[at].Message)
	}
	return found, err
}

// older returns the objects that the version with a revision number has applied. If it is no longer stored, the current version has inherited them.
func (i *Installed) older(number int64) map[object.Identity]*unstructured.Unstructured {
	objects := i.objects[i.ClusterAPI.Status.CurrentVersion]
	for name, stored := range i.objects {
		if its, err := revision.Number(name); err == nil && its == number {
			objects = stored
		}
	}
	return revision.ByIdentity([]revision.Phase{{Objects: objects}})
}

// judged is a cluster that the preflight reads. It records the answers to dry runs.
type judged struct {
	*apiserver.Cluster

	mutex   sync.Mutex
	answers map[object.Identity]answer
}

// answer is the answer to the dry run of an object. The result is nil unless the object was accepted.
type answer struct {
	contract.Answer
	result *unstructured.Unstructured
}

// record keeps an answer. It returns no error if the API server does not judge the object, because this user lacks the permission or a webhook fails.
func (j *judged) record(ctx context.Context, of, result *unstructured.Unstructured, err error) error {
	found, errAnswer := j.Answer(ctx, of, err)
	if errAnswer != nil {
		return errAnswer
	}
	switch {
	case err == nil:
	case guard.Resolves(of, err):
		found, result = contract.Answer{}, nil
	default:
		result = nil
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.answers[object.IdentityOf(of)] = answer{found, result}
	if found.Verdict == contract.Unknown && (apierrors.IsForbidden(err) || guard.IsTransient(err)) {
		return nil
	}
	return err
}

// Creates implements guard.Cluster: the plan shows the difference from each object, so it reads all of them.
func (j *judged) Creates(context.Context, *unstructured.Unstructured) bool { return false }

// Apply implements guard.Cluster.
func (j *judged) Apply(ctx context.Context, desired *unstructured.Unstructured) error {
	result, err := j.Cluster.Apply(ctx, desired, v1alpha1.FieldOwner)
	return j.record(ctx, desired, result, err)
}

// Merge implements guard.Cluster.
func (j *judged) Merge(ctx context.Context, desired *unstructured.Unstructured, patch []byte) error {
	result, err := j.Cluster.Merge(ctx, desired, patch, v1alpha1.FieldOwner)
	return j.record(ctx, desired, result, err)
}

// Create implements guard.Cluster.
func (j *judged) Create(ctx context.Context, desired *unstructured.Unstructured) error {
	return j.Cluster.Create(ctx, desired, metav1.CreateOptions{FieldManager: v1alpha1.FieldOwner})
}

// All implements guard.Cluster.
func (j *judged) All(ctx context.Context, kind schema.GroupVersionKind) ([]*unstructured.Unstructured, error) {
	return j.List(ctx, kind, "")
}

// Instance implements guard.Cluster.
func (j *judged) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	number, err := instancesOf(ctx, j.Cluster, crd)
	if number == 0 {
		return "", err
	}
	return "it has " + term.Plural(number, "instance", "instances"), err
}

// MissingPermissions returns the rules that the installer lacks to install, revert and remove the objects of
// phases, with the roles among the given objects.
func MissingPermissions(phases []revision.Phase, unmanaged []string, roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces) ([]rbac.Rule, error) {
	held, err := rbac.RulesOfInstaller(roles, namespaces.Operator)
	if err != nil {
		return nil, fmt.Errorf("reading the installer's roles: %w", err)
	}
	return rbac.MinimalRules(objectsOf(phases), rbac.Options{UnmanagedCRDs: unmanaged, ExistingRules: held, Namespaces: namespaces}), nil
}

// Roles returns the roles and bindings of the cluster.
func (i *Installed) Roles(ctx context.Context) ([]*unstructured.Unstructured, error) {
	var roles []*unstructured.Unstructured
	for _, kind := range []string{object.ClusterRole.Kind, object.ClusterRoleBinding.Kind, object.Role.Kind, object.RoleBinding.Kind} {
		found, err := i.cluster.List(ctx, object.ClusterRole.WithVersion("v1").GroupVersion().WithKind(kind), "")
		if err != nil {
			return nil, err
		}
		roles = append(roles, found...)
	}
	return roles, nil
}

// Namespaces returns the namespaces of an installation: the given ones of the providers, or the default one and those in the settings.
func Namespaces(profile extractor.ClusterProfile, given []string, settings []v1alpha1.ComponentSettings) v1alpha1.Namespaces {
	out := profile.Namespaces()
	if len(given) > 0 {
		out.Operand, out.Others = given[0], given[1:]
		return out
	}
	for _, component := range settings {
		if name := component.Namespace; name != "" && !slices.Contains(out.Providers(), name) {
			out.Others = append(out.Others, name)
		}
	}
	return out
}

// MissingInShipped returns the rules for the phases that the shipped roles lack in the namespaces. Those for certificates are shipped with
// deploy/kubernetes only, where the installer issues them.
func MissingInShipped(phases []revision.Phase, unmanaged []string, roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces, profile extractor.ClusterProfile) ([]rbac.Rule, error) {
	missing, err := MissingPermissions(phases, unmanaged, inAll(roles, namespaces, profile.Namespaces().Operand), namespaces)
	return slices.DeleteFunc(missing, rbac.Rule.ForCertificates), err
}

// inAll returns the shipped roles in each namespace of providers: deploy/kubernetes has them for the default one, and for any other.
func inAll(roles []*unstructured.Unstructured, namespaces v1alpha1.Namespaces, shipped string) (all []*unstructured.Unstructured) {
	for _, role := range roles {
		if role.GetNamespace() != shipped {
			all = append(all, role)
			continue
		}
		for _, namespace := range namespaces.Providers() {
			in := role.DeepCopy()
			in.SetNamespace(namespace)
			all = append(all, in)
		}
	}
	return all
}
