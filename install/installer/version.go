// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
)

// version is a version as its revision ConfigMaps store it.
type version struct {
	name string
	// namespaces are the namespaces of the installation.
	namespaces v1alpha1.Namespaces
	// owner is the version that the checks and the components without an owner of their own name as
	// their owner, and number is its revision number. It differs from name if the version adopted the
	// objects of an older version as a whole.
	owner  string
	number int64
	digest string
	stored revision.Stored
	// secrets are the values of the placeholders in the stored objects; none if the Secret of the version is missing.
	secrets setting.Secrets
	// ignored are the fields that the drift policy leaves to other actors.
	ignored []v1alpha1.IgnoredFields
	// unmanaged are the CRDs that the version neither modifies nor deletes.
	unmanaged []string
	// added are the unmanaged CRDs that the version was not created with: the next version is.
	added []string
	// released are the CRDs that a newer version leaves unmanaged.
	released []string
}

// load reads a version and checks that its digest is the one in the status.
func (s state) load(entry v1alpha1.Version) (version, error) {
	out, err := s.read(entry.Name)
	if err == nil && out.digest != string(entry.ManifestsDigest) {
		err = fmt.Errorf("revision ConfigMap %s has digest %s, want %s from the status", entry.Name, out.digest, entry.ManifestsDigest)
	}
	out.unmanaged = union(entry.UnmanagedCRDs, s.Cluster.Spec.UnmanagedCRDs)
	out.added = slices.DeleteFunc(slices.Clone(s.Cluster.Spec.UnmanagedCRDs), func(crd string) bool { return slices.Contains(entry.UnmanagedCRDs, crd) })
	for _, newer := range s.Cluster.Status.Versions {
		if newer.Revision > entry.Revision {
			out.released = append(out.released, newer.UnmanagedCRDs...)
		}
	}
	return out, err
}

// loadNumber loads the version with a revision number.
func (s state) loadNumber(number int64) (version, error) {
	for _, entry := range s.Cluster.Status.Versions {
		if entry.Revision == number {
			return s.load(entry)
		}
	}
	return version{}, fmt.Errorf("revision %d not found in status.versions", number)
}

// currentParts returns the parts of the current version; none while there is none.
func (s state) currentParts() sets.Set[revision.Part] {
	return s.reportedParts(s.Cluster.Status.CurrentVersion)
}

// reportedParts returns the parts of a version in the status; none if the status has no such version.
func (s state) reportedParts(name string) sets.Set[revision.Part] {
	if entry := s.Cluster.Status.Version(name); entry != nil {
		return revision.PartsOf(*entry)
	}
	return nil
}

// otherParts returns the parts that other versions install: the current and the desired version, newer ones, and those that are not
// being removed. Of several versions with a part that are being removed, only the newest removes it.
func (s state) otherParts(name string) sets.Set[revision.Part] {
	own, _ := revision.Number(name) // 0 for an invalid name: all others are newer
	parts := sets.New[revision.Part]()
	for _, other := range s.Cluster.Status.Versions {
		used := other.Revision > own || other.Name == s.Cluster.Status.CurrentVersion || other.Name == s.Cluster.Status.DesiredVersion
		if other.Name != name && (used || !s.revisions().isDeleted(other.Name)) {
			parts = parts.Union(revision.PartsOf(other))
		}
	}
	return parts
}

// removedSince returns the time since when a version is being removed.
func (s state) removedSince(name string) time.Time {
	var since time.Time
	if s.Uninstalling() && s.Cluster.DeletionTimestamp != nil {
		since = s.Cluster.DeletionTimestamp.Time
	}
	for _, configMap := range s.ConfigMaps {
		if deleted := configMap.DeletionTimestamp; configMap.Name == name && deleted != nil && deleted.After(since) {
			since = deleted.Time
		}
	}
	return since
}

// read assembles a version from its revision ConfigMaps and computes its digest.
func (s state) read(name string) (version, error) {
	stored, err := revision.FromConfigMaps(name, s.ConfigMaps)
	if err != nil {
		return version{}, fmt.Errorf("reading revision ConfigMap %s: %w", name, err)
	}
	owner := s.revisions().installedAs(name)
	number, err := revision.Number(owner)
	if err != nil {
		return version{}, err
	}
	secrets, _ := revision.SecretsOf(name, s.secrets) // plan compares the digest
	return version{
		name: name, namespaces: s.namespaces, owner: owner, number: number, digest: stored.Digest.String(), stored: stored, secrets: secrets,
		ignored: s.Cluster.Spec.DriftPolicy.IgnoredFields,
	}, nil
}
