// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/internal/object"
)

// findings returns the findings of the installer's preflight about a release.
func (i *Installed) findings(ctx context.Context, release preflight.Release) ([]preflight.Finding, error) {
	release.Accepted = i.ClusterAPI.Spec.AcceptedRisks
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
	found, err := preflight.Check(ctx, judged{i.cluster}, release)
	for at := range found {
		found[at].Message = i.mask.Text(found[at].Message)
	}
	return found, err
}

// judged is a cluster that the preflight reads.
type judged struct{ *apiserver.Cluster }

// Rejection implements preflight.Cluster.
func (j judged) Rejection(ctx context.Context, desired, actual *unstructured.Unstructured) error {
	_, err := j.Apply(ctx, withBookkeeping(desired, actual), v1alpha1.FieldOwner)
	return err
}

// Creates implements preflight.Cluster.
func (j judged) Creates(ctx context.Context, desired *unstructured.Unstructured) bool {
	return preflight.Exists(j.Create(ctx, desired, v1alpha1.FieldOwner))
}

// Instance implements preflight.Cluster.
func (j judged) Instance(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	number, err := instancesOf(ctx, j.Cluster, crd)
	if number == 0 {
		return "", err
	}
	return "it has " + term.Plural(number, "instance", "instances"), err
}
