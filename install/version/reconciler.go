// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/status"
)

// Reconciler is the version controller.
type Reconciler struct {
	// Client reads from the manager's cache and writes.
	Client client.Client
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Reporter writes outcomes to the status objects.
	Reporter *status.Reporter
	// Fetcher returns the bundles of an image.
	Fetcher extractor.Fetcher
	// ImagesJSON is the path of images.json.
	ImagesJSON string
	// Identity is the identity of the process in the Lease; empty without leader election.
	Identity string
	// Release is the version of the running release; empty means that the file release-version next to images.json names it.
	Release string
	// Platforms are the cluster's platforms; empty reads the platform from the Infrastructure object.
	Platforms operand.Platforms
	// Variables are values for variables in the manifests; they take precedence over
	// the cluster's values.
	Variables map[string]string
	// Namespaces are the namespaces of the installation: a component can have any of the providers' namespaces.
	Namespaces v1alpha1.Namespaces

	// Official reads OpenShift's own ClusterAPI object. If it is nil, that object
	// is ignored.
	Official *officialapi.Source

	// Mask learns the values of Secrets; nil ignores them.
	Mask *masking.Mask

	// Verdict returns the verdict of the signature policies on an image at the last Fetch; nil if Fetcher checks no signatures.
	Verdict func(ctx context.Context, image string) v1alpha1.SignatureVerdict

	// Pin is called with the images of all versions after each reconcile, so that a
	// cache keeps their bundles; nil disables it.
	Pin func(images ...digest.Digest) error
}

// storage returns the storage of versions.
func (r *Reconciler) storage() storage {
	return storage{r.Client, r.Live, r.Namespaces.Operator, r.Mask}
}

// source returns the source of the release's files.
func (r *Reconciler) source() releaseSource { return releaseSource{r.ImagesJSON, r.Release} }
