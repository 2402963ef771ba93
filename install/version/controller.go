// SPDX-License-Identifier: Apache-2.0

// Package version is the version controller: it decides which version should be
// installed. It reads the release's images, the transport ConfigMaps, the platform
// and the overrides, and renders a set of objects from them. If that set differs
// from the desired version, it creates a new version: first the revision ConfigMap
// with the rendered objects, then the entry in the status of the ClusterAPI object.
//
// Before that, it restores revision ConfigMaps that another actor deleted or
// modified from their own content.
package version

import (
	"cmp"
	"context"
	"strings"

	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/snapshot"
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

// Reconcile decides which version should be installed, and stores it.
func (r *Reconciler) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	state, err := snapshot.Read(ctx, r.Namespaces.Operator, r.Client, r.Live)
	if err != nil || state.Uninstalling() {
		return reconcile.Result{}, err
	}
	if err := r.Official.AddUnmanaged(ctx, state.Cluster); err != nil {
		return reconcile.Result{}, err
	}
	files := r.source().read()
	seen := r.observe(ctx, state, files)
	outcome := r.pass(files).outcome(ctx, state)
	outcome.Generation = state.Cluster.Generation
	if outcome.Err != nil {
		log.FromContext(ctx).Info("Version not updated", "reason", outcome.Reason, "cause", outcome.Err.Error())
	}
	reported, err := r.Reporter.Report(ctx, nil, status.Version, outcome, func(s *v1alpha1.ClusterAPIStatus) {
		seen.record(s)
		r.recordVerdicts(ctx, outcome, s)
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	r.pin(ctx, reported.Cluster)
	if err := r.recordHistory(ctx, reported.Cluster, state.ConfigMaps, files, outcome.Err == nil); err != nil {
		return reconcile.Result{}, err
	}
	return reported.Result(outcome)
}

// pass decides on the version for one release.
type pass struct {
	*Reconciler
	files releaseFiles
	// release is the running release: of the Reconciler, or of the files if it has none.
	release string
}

func (r *Reconciler) pass(files releaseFiles) pass {
	return pass{r, files, cmp.Or(r.Release, files.version)}
}

// pin keeps the bundles of the versions' images in the cache. If that fails, they
// are pulled again when they are needed.
func (r *Reconciler) pin(ctx context.Context, cluster *v1alpha1.ClusterAPI) {
	if r.Pin == nil {
		return
	}
	var images []digest.Digest
	for _, version := range cluster.Status.Versions {
		for _, component := range version.Components {
			if _, of, byDigest := strings.Cut(string(component.Image), "@"); byDigest {
				images = append(images, digest.Digest(of))
			}
		}
	}
	if err := r.Pin(images...); err != nil {
		log.FromContext(ctx).Error(err, "Pinning the images of the versions failed; they may be pulled again")
	}
}

// outcome decides on a version and stores it. An error leaves the existing versions
// unchanged.
func (p pass) outcome(ctx context.Context, state snapshot.Snapshot) status.Outcome {
	existing := state.ConfigMaps
	wrote, err := p.storage().repair(ctx, state.Cluster, existing)
	if err == nil && wrote {
		existing, err = snapshot.ConfigMaps(ctx, p.Namespaces.Operator, p.Client, p.Live)
	}
	if err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	inputs, outcome := p.readInputs(ctx, state.Cluster, existing)
	if outcome.Reason != reason.AsExpected {
		return outcome
	}
	return p.decide(ctx, state.Cluster, inputs, existing)
}

// storage returns the storage of versions.
func (r *Reconciler) storage() storage {
	return storage{r.Client, r.Live, r.Namespaces.Operator, r.Mask}
}

// source returns the source of the release's files.
func (r *Reconciler) source() releaseSource { return releaseSource{r.ImagesJSON, r.Release} }
