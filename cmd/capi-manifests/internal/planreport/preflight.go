// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/internal/object"
)

// findings returns the findings of the installer's preflight about a release, in a cluster with stored versions.
func findings(ctx context.Context, cluster *apiserver.Cluster, stored map[string][]*unstructured.Unstructured, release preflight.Release) ([]preflight.Finding, error) {
	like := &unstructured.Unstructured{}
	like.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ClusterAPI"))
	like.SetName(v1alpha1.ClusterAPIName)
	found, err := cluster.Read(ctx, like)
	if err != nil {
		return nil, err
	}
	clusterAPI := &v1alpha1.ClusterAPI{}
	if found != nil {
		decoded, err := installed.Decode[v1alpha1.ClusterAPI](found)
		if err != nil {
			return nil, err
		}
		clusterAPI = &decoded[0]
	}
	release.Accepted = clusterAPI.Spec.AcceptedRisks
	if current := clusterAPI.Status.Version(clusterAPI.Status.CurrentVersion); current != nil {
		release.Installed = current.Components
		crds := map[string]*unstructured.Unstructured{}
		for _, o := range stored[current.Name] {
			if object.IsCRD(o) {
				crds[o.GetName()] = o
			}
		}
		release.InstalledCRD = func(name string) *unstructured.Unstructured { return crds[name] }
	}
	return preflight.Check(ctx, judged{cluster}, release)
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
