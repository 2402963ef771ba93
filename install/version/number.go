// SPDX-License-Identifier: Apache-2.0

package version

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

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
