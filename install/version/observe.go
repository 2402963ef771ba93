// SPDX-License-Identifier: Apache-2.0

package version

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
func (r *Reconciler) observe(files releaseFiles, in clusterInputs) observed {
	seen := observed{by: r.Identity, inputs: in.seen}
	if files.images != nil {
		seen.release = &v1alpha1.ObservedRelease{
			Version: files.version, ImagesDigest: v1alpha1.Digest(digest.FromBytes(files.images)), Platform: strings.Join(r.Platforms, ","),
		}
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
