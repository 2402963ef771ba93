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
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/masking"
	"github.com/capi-installer/capi-installer/install/officialapi"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
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
		r.record(s, files, in)
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
		return failure(reason.WriteFailed, err)
	}
	inputs, outcome := r.readInputs(ctx, files, in, state.Cluster, existing)
	if outcome.Reason != reason.AsExpected {
		return outcome
	}
	return r.decide(ctx, files.release, state.Cluster, inputs, existing)
}

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

// decide creates a new version if the inputs differ from the desired version, and
// removes older versions once the desired version is installed.
//
// It renders nothing while the desired version matches the inputs and its
// ConfigMaps are readable. If they are unreadable, it stores them again, provided
// that rendering gives the same objects. A newer renderer may give other objects.
// They make a new version.
func (r *Reconciler) decide(ctx context.Context, release string, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	matches, readable := desired != nil && revision.Same(*desired, operand.ContentID(inputs.Inputs), cluster.Spec.UnmanagedCRDs), false
	if matches {
		_, readable = storedIn(existing, *desired)
	}
	if readable {
		if err := operand.CheckEntries(inputs.Inputs); err != nil { // the content ID leaves such entries out
			return failure(reason.SettingsInvalid, err)
		}
		return r.maintain(ctx, cluster, inputs, existing)
	}
	set, err := operand.Render(inputs.Inputs)
	if err != nil {
		return failure(renderReason(err), err)
	}
	inputs.Bundles = nil // they are rendered: their memory is free before the objects of the desired version are decoded
	if matches {
		stored, err := revision.Encode(asInstalled(set, *desired))
		if err == nil && string(desired.ManifestsDigest) == stored.Digest.String() {
			if err := r.storage().store(ctx, cluster, *desired, stored, inputs.Settings.Secrets, true); err != nil {
				return failure(reason.WriteFailed, err)
			}
			return retirement{r.Client}.retire(ctx, cluster, existing)
		}
	}
	return r.add(ctx, release, cluster, set, inputs, existing)
}

// asInstalled returns a set with the owners of the components of a version that has the same components.
func asInstalled(set operand.Set, version v1alpha1.Version) operand.Set {
	set.Operands = slices.Clone(set.Operands)
	for i := range min(len(set.Operands), len(version.Components)) {
		set.Operands[i].InstalledAs = version.Components[i].InstalledAs
	}
	return set
}

// renderReason returns the reason of an error of rendering. An administrator can correct a setting, and must wait for another image.
func renderReason(err error) reason.Reason {
	if errors.As(err, new(*operand.SettingError)) {
		return reason.SettingsInvalid
	}
	return reason.RenderFailed
}

// maintain updates the records of a desired version that matches the inputs.
func (r *Reconciler) maintain(ctx context.Context, cluster *v1alpha1.ClusterAPI, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	if err := r.storage().annotatePlatforms(ctx, named(existing, cluster.Status.DesiredVersion), inputs.platforms); err != nil {
		return failure(reason.WriteFailed, err)
	}
	return retirement{r.Client}.retire(ctx, cluster, existing)
}

// inherit returns the set of a new version with the owners of the components that are the same in the desired version. It
// also returns the version whose objects the new version adopts as a whole, because all of them are the same from other
// inputs, such as an image instead of ConfigMaps; empty if there is none.
//
// Objects are compared with the values of Secrets, not with their placeholders.
func inherit(cluster *v1alpha1.ClusterAPI, set operand.Set, inputs inputs, existing []corev1.ConfigMap) (operand.Set, string) {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	if desired == nil {
		return set, ""
	}
	stored, readable := storedIn(existing, *desired)
	if !readable {
		return set, ""
	}
	before, err := stored.Decode()
	if err != nil {
		return set, ""
	}
	unmanaged := cluster.Spec.UnmanagedCRDs
	before, revealed := before.Revealed(inputs.former), set.Revealed(inputs.Settings.Secrets)
	inherited := revision.Inherit(revealed, unmanaged, *desired, before)
	set.Operands = slices.Clone(set.Operands)
	for i := range set.Operands {
		set.Operands[i].InstalledAs = inherited.Operands[i].InstalledAs
	}
	if !revision.SameUnmanaged(*desired, unmanaged) || !revision.SameObjects(before, revealed) {
		return set, ""
	}
	return set, cmp.Or(desired.InstalledAs, desired.Name)
}

// rollingOut is the outcome until the desired version is installed.
func rollingOut(version string) status.Outcome {
	return status.Outcome{Reason: reason.RollingOut, Message: "waiting for version " + version + " to be installed"}
}

// add creates a new version: first the revision ConfigMap, then the status, so that
// every version in the status can be read. If the process ends in between, the next
// reconcile finds the ConfigMap and uses it.
func (r *Reconciler) add(ctx context.Context, release string, cluster *v1alpha1.ClusterAPI, set operand.Set, inputs inputs, existing []corev1.ConfigMap) status.Outcome {
	set, installedAs := inherit(cluster, set, inputs, existing)
	stored, err := revision.Encode(set)
	if err != nil {
		return failure(reason.RenderFailed, err)
	}
	if len(cluster.Status.Versions) >= maxVersions {
		return retirement{r.Client}.evict(ctx, cluster, existing)
	}
	numbered, err := r.Official.Revisions(ctx)
	if err != nil {
		return failure(reason.WriteFailed, err)
	}
	name, number, err := nextVersion(release, cluster.Status.Versions, numbered, stored, existing)
	if err != nil {
		return failure(reason.ImagesInvalid, err)
	}
	version := v1alpha1.Version{
		Name: name, Revision: number,
		InstalledAs:     installedAs,
		ContentID:       v1alpha1.Digest(set.ContentID),
		ManifestsDigest: v1alpha1.Digest(stored.Digest),
		UnmanagedCRDs:   slices.Clone(cluster.Spec.UnmanagedCRDs),
		Components:      set.Components(),
	}
	if err := r.storage().store(ctx, cluster, version, stored, inputs.Settings.Secrets, false); err != nil {
		return failure(reason.WriteFailed, err)
	}
	log.FromContext(ctx).Info("New desired version", "version", name, "installedAs", version.InstalledAs,
		"contentID", set.ContentID, "components", len(set.Operands))
	outcome := rollingOut(name)
	outcome.Change = func(s *v1alpha1.ClusterAPIStatus) {
		if s.Version(name) == nil {
			s.Versions = append(s.Versions, version)
		}
		s.DesiredVersion = name
	}
	return outcome
}

// nextVersion returns the name and the number of the new version. It takes them
// from a ConfigMap that has the same objects and no entry in the status yet; else
// they are the next ones. numbered are further versions whose numbers are taken,
// from the status of OpenShift's own ClusterAPI object.
func nextVersion(release string, versions, numbered []v1alpha1.Version, stored revision.Stored, existing []corev1.ConfigMap) (string, int64, error) {
	history := slices.Concat(versions, numbered)
	for _, configMap := range existing {
		number := numberOf(configMap)
		if number == 0 || slices.ContainsFunc(versions, func(v v1alpha1.Version) bool { return v.Name == configMap.Name }) {
			continue
		}
		history = append(history, v1alpha1.Version{Name: configMap.Name, Revision: number})
	}
	name, number, err := revision.Next(history, release)
	if err != nil {
		return "", 0, err
	}
	if last := newest(history); last != nil && last.ManifestsDigest == "" && last.Name == fmt.Sprintf("%s-%d", release, last.Revision) {
		if left := named(existing, last.Name); left != nil && left.DeletionTimestamp.IsZero() && left.Annotations[v1alpha1.ManifestsDigestAnnotation] == stored.Digest.String() {
			return last.Name, last.Revision, nil
		}
	}
	for err == nil && isTaken(name, existing) {
		history = append(history, v1alpha1.Version{Name: name, Revision: number})
		name, number, err = revision.Next(history, release)
	}
	return name, number, err
}

// isTaken reports whether another actor has created a ConfigMap with the name of a version, or of its further ConfigMaps.
func isTaken(version string, existing []corev1.ConfigMap) bool {
	return slices.ContainsFunc(existing, func(c corev1.ConfigMap) bool { return c.Name == version || strings.HasPrefix(c.Name, version+".") })
}

// numberOf returns the revision number of the version whose first ConfigMap this is; 0
// if it is not one.
func numberOf(configMap corev1.ConfigMap) int64 {
	if configMap.Labels[v1alpha1.RevisionLabel] != configMap.Name {
		return 0
	}
	number, err := revision.Number(configMap.Name)
	if err != nil {
		return 0
	}
	return number
}

func newest(versions []v1alpha1.Version) *v1alpha1.Version {
	if len(versions) == 0 {
		return nil
	}
	last := slices.MaxFunc(versions, func(a, b v1alpha1.Version) int { return cmp.Compare(a.Revision, b.Revision) })
	return &last
}
