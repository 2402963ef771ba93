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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/snapshot"
	"github.com/capi-installer/capi-installer/install/status"
)

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
	in := r.readCluster(ctx, state.Cluster.Spec)
	seen := r.observe(files, in)
	outcome := r.outcome(ctx, files, in, state)
	outcome.Generation = state.Cluster.Generation
	if outcome.Err != nil {
		log.FromContext(ctx).Info("Version not updated", "reason", outcome.Reason, "cause", outcome.Err.Error())
	}
	decided := outcome.Change
	outcome.Change = func(s *v1alpha1.ClusterAPIStatus) {
		if decided != nil {
			decided(s)
		}
		if outcome.ReleaseInstalled {
			s.InstalledRelease = files.release
		}
		seen.record(s)
		r.recordVerdicts(ctx, outcome, s)
	}
	reported, err := r.Reporter.Report(ctx, state.Cluster, outcome)
	if err != nil {
		return reconcile.Result{}, err
	}
	r.pin(ctx, reported.Cluster)
	if err := r.recordHistory(ctx, reported.Cluster, state.ConfigMaps, files, outcome.Err == nil); err != nil {
		return reconcile.Result{}, err
	}
	return reported.Result(outcome)
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
func (r *Reconciler) outcome(ctx context.Context, files releaseFiles, in clusterInputs, state snapshot.Snapshot) status.Outcome {
	existing := state.ConfigMaps
	wrote, err := r.storage().repair(ctx, state.Cluster, existing)
	if err == nil && wrote {
		existing, err = snapshot.ConfigMaps(ctx, r.Namespaces.Operator, r.Client, r.Live)
	}
	if err = cmp.Or(err, in.err); err != nil {
		return status.Outcome{Reason: reason.WriteFailed, Err: err}
	}
	inputs, outcome := r.readInputs(ctx, files, in, state.Cluster, existing)
	if outcome.Reason != reason.AsExpected {
		return outcome
	}
	return r.decide(ctx, files.release, state.Cluster, inputs, existing)
}
