// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/snapshot"
)

// observed are the inputs that a reconcile has read, for the status. A client that has changed an input compares it with the status, to
// learn whether the rest of the status considers the change.
type observed struct {
	release *v1alpha1.ObservedRelease // nil if the files could not be read
	inputs  []v1alpha1.ObservedInput
	by      string
}

// observe returns the inputs before they are used, so that the status never claims a newer one than the version has. An input that cannot
// be read is missing: the outcome of the reconcile has the error.
func (r *Reconciler) observe(ctx context.Context, state snapshot.Snapshot, files releaseFiles) observed {
	seen := observed{by: r.Identity}
	if files.images != nil {
		seen.release = &v1alpha1.ObservedRelease{
			Version: files.version, ImagesDigest: v1alpha1.Digest(digest.FromBytes(files.images)), Platform: strings.Join(r.Platforms, ","),
		}
	}
	seen.inputs = setting.Of(state.Cluster.Spec).References(r.Namespaces.Operator)
	for i := range seen.inputs {
		input := &seen.inputs[i]
		secret := &corev1.Secret{}
		if r.Client.Get(ctx, client.ObjectKey{Namespace: input.Namespace, Name: input.Name}, secret) == nil {
			input.ResourceVersion = secret.ResourceVersion
		}
	}
	if len(r.Platforms) == 0 { // otherwise the cluster is not OpenShift
		seen.inputs = append(seen.inputs, configuration{r.Client}.observe(ctx)...)
	}
	return seen
}

// record writes the inputs to the status.
func (o observed) record(s *v1alpha1.ClusterAPIStatus) {
	if o.release != nil {
		s.ObservedRelease = o.release
	}
	s.ObservedInputs, s.ObservedBy = slices.Clone(o.inputs), o.by
}
