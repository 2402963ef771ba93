// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/fieldset"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// findings returns the findings of the installer's preflight about a release.
func (i *Installed) findings(ctx context.Context, judges *judged, release preflight.Release) ([]preflight.Finding, error) {
	release.Accepted = i.ClusterAPI.Spec.AcceptedRisks
	release.Upgrade = fieldset.Upgrade{
		Schemas: &fieldset.Schemas{Discovery: i.cluster.Discovery}, Namespace: i.Namespace, Older: i.older, Ignored: i.Ignored,
	}
	if current := i.ClusterAPI.Status.Version(i.ClusterAPI.Status.CurrentVersion); current != nil {
		release.Installed = current.Components
		crds := map[string]*unstructured.Unstructured{}
		for _, o := range i.objects[current.Name] {
			if object.IsCRD(o) {
				crds[o.GetName()] = o
			}
		}
		release.InstalledCRD = func(name string) *unstructured.Unstructured { return crds[name] }
	}
	found, err := preflight.Check(ctx, judges, release)
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
	case preflight.Resolves(of, err):
		found, result = contract.Answer{}, nil
	default:
		result = nil
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	j.answers[object.IdentityOf(of)] = answer{found, result}
	if found.Verdict == contract.Unknown && (apierrors.IsForbidden(err) || preflight.IsTransient(err)) {
		return nil
	}
	return err
}

// Apply implements preflight.Cluster.
func (j *judged) Apply(ctx context.Context, desired *unstructured.Unstructured) error {
	result, err := j.Cluster.Apply(ctx, desired, v1alpha1.FieldOwner)
	return j.record(ctx, desired, result, err)
}

// Merge implements preflight.Cluster.
func (j *judged) Merge(ctx context.Context, desired *unstructured.Unstructured, patch []byte) error {
	result, err := j.Cluster.Merge(ctx, desired, patch, v1alpha1.FieldOwner)
	return j.record(ctx, desired, result, err)
}

// Create implements preflight.Cluster.
func (j *judged) Create(ctx context.Context, desired *unstructured.Unstructured) error {
	return j.Cluster.Create(ctx, desired, v1alpha1.FieldOwner)
}

// Instance implements preflight.Cluster.
func (j *judged) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	number, err := instancesOf(ctx, j.Cluster, crd)
	if number == 0 {
		return "", err
	}
	return "it has " + term.Plural(number, "instance", "instances"), err
}
