// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// version is a version as its revision ConfigMaps store it.
type version struct {
	name string
	// owner is the version that the objects name as their owner, and number is its
	// revision number. It differs from name if the version adopted the objects of an
	// older version unchanged.
	owner  string
	number int64
	digest string
	stored revision.Stored
	// unmanaged are the CRDs that the version neither modifies nor deletes.
	unmanaged []string
}

// load reads a version and checks that its digest is the one in the status.
func (s state) load(entry v1alpha1.Version) (version, error) {
	out, err := s.read(entry.Name)
	if err == nil && out.digest != string(entry.ManifestsDigest) {
		err = fmt.Errorf("revision ConfigMap %s has digest %s, want %s from the status", entry.Name, out.digest, entry.ManifestsDigest)
	}
	out.unmanaged = union(entry.UnmanagedCRDs, s.Cluster.Spec.UnmanagedCRDs)
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

// read assembles a version from its revision ConfigMaps and computes its digest.
func (s state) read(name string) (version, error) {
	stored, err := revision.FromConfigMaps(name, s.ConfigMaps)
	if err != nil {
		return version{}, fmt.Errorf("reading revision ConfigMap %s: %w", name, err)
	}
	owner := installedAs(s.ConfigMaps, name)
	number, err := revision.Number(owner)
	if err != nil {
		return version{}, err
	}
	return version{name: name, owner: owner, number: number, digest: stored.Digest.String(), stored: stored}, nil
}

// installedAs returns the version that the objects of a version name as their owner.
func installedAs(configMaps []corev1.ConfigMap, name string) string {
	for i := range configMaps {
		if as := configMaps[i].Annotations[v1alpha1.InstalledAsAnnotation]; as != "" && configMaps[i].Name == name {
			return as
		}
	}
	return name
}

// union returns the names in either list, sorted and without duplicates.
func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}
