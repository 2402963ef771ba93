// SPDX-License-Identifier: Apache-2.0

package officialapi

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Limits of the official API.
const (
	maxRevisions     = 16
	maxComponents    = 32
	maxSubstitutions = 32
	maxUnmanaged     = 128
	maxValue         = 4096
)

// defaultProfile is the profile that is reported for a component without one: bundles in
// /capi-manifests have none.
const defaultProfile = "default"

// Contents returns the stored objects and variables of a version.
type Contents func(version string) (operand.Set, error)

// Status returns the status of the official object for a ClusterAPI object.
//
// Entries of revisions never change, so existing ones are kept; contents is called
// for new ones. The revisions of cluster-capi-operator stay until the first version
// is completely installed. A cluster without a name means that the installer's
// ClusterAPI object does not exist, so that no revision is current.
func Status(official *operatorv1alpha1.ClusterAPI, cluster *v1alpha1.ClusterAPI, contents Contents) (operatorv1alpha1.ClusterAPIStatus, error) {
	before := official.Status
	if len(cluster.Status.Versions) == 0 {
		before.CurrentRevision = ""
		return before, nil
	}
	revisions, err := revisions(before.Revisions, cluster, contents)
	if err != nil {
		return before, err
	}
	after := operatorv1alpha1.ClusterAPIStatus{
		Revisions:                  revisions,
		DesiredRevision:            revisions[len(revisions)-1].Name,
		CurrentRevision:            operatorv1alpha1.RevisionName(cluster.Status.CurrentVersion),
		ObservedRevisionGeneration: before.ObservedRevisionGeneration,
	}
	if after.CurrentRevision == "" && named(revisions, before.CurrentRevision) != nil {
		after.CurrentRevision = before.CurrentRevision
	}
	if excludes(official, cluster) {
		after.ObservedRevisionGeneration = max(after.ObservedRevisionGeneration, official.Generation)
	}
	return after, nil
}

// excludes reports whether the desired version leaves out every CRD that the official object lists as unmanaged.
func excludes(official *operatorv1alpha1.ClusterAPI, cluster *v1alpha1.ClusterAPI) bool {
	desired := cluster.Status.Version(cluster.Status.DesiredVersion)
	return desired != nil && !slices.ContainsFunc(unmanaged(official), func(name string) bool {
		return !slices.Contains(desired.UnmanagedCRDs, name)
	})
}

// revisions returns the entries of the status, by ascending number.
func revisions(before []operatorv1alpha1.ClusterAPIInstallerRevision, cluster *v1alpha1.ClusterAPI, contents Contents) ([]operatorv1alpha1.ClusterAPIInstallerRevision, error) {
	var after []operatorv1alpha1.ClusterAPIInstallerRevision
	if cluster.Status.CurrentVersion == "" {
		after = slices.DeleteFunc(slices.Clone(before), func(r operatorv1alpha1.ClusterAPIInstallerRevision) bool {
			return cluster.Status.Version(string(r.Name)) != nil
		})
	}
	for _, version := range cluster.Status.Versions {
		if known := named(before, operatorv1alpha1.RevisionName(version.Name)); known != nil {
			after = append(after, *known)
			continue
		}
		set, err := contents(version.Name)
		if err != nil {
			return nil, err
		}
		after = append(after, revision(version, set))
	}
	slices.SortFunc(after, func(a, b operatorv1alpha1.ClusterAPIInstallerRevision) int {
		return cmp.Compare(a.Revision, b.Revision)
	})
	return after[max(0, len(after)-maxRevisions):], nil
}

func named(revisions []operatorv1alpha1.ClusterAPIInstallerRevision, name operatorv1alpha1.RevisionName) *operatorv1alpha1.ClusterAPIInstallerRevision {
	for i := range revisions {
		if revisions[i].Name == name {
			return &revisions[i]
		}
	}
	return nil
}

// revision returns the entry of a version.
func revision(version v1alpha1.Version, set operand.Set) operatorv1alpha1.ClusterAPIInstallerRevision {
	return operatorv1alpha1.ClusterAPIInstallerRevision{
		Name:                               operatorv1alpha1.RevisionName(version.Name),
		Revision:                           version.Revision,
		ContentID:                          string(version.ContentID),
		UnmanagedCustomResourceDefinitions: included(version.UnmanagedCRDs, set),
		ManifestSubstitutions:              substitutions(set.Variables),
		Components:                         components(version.Components),
	}
}

// included returns the unmanaged CRDs that the version contains.
func included(unmanaged []string, set operand.Set) []string {
	var names []string
	for _, component := range set.Operands {
		for _, o := range component.Objects {
			if object.IsCRD(o) && slices.Contains(unmanaged, o.GetName()) {
				names = append(names, o.GetName())
			}
		}
	}
	return limit(union(names, nil), maxUnmanaged)
}

var substitutionKey = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,254}$`)

// substitutions returns the variables that the manifests of the version use.
func substitutions(variables map[string]string) []operatorv1alpha1.ClusterAPIInstallerRevisionManifestSubstitution {
	var found []operatorv1alpha1.ClusterAPIInstallerRevisionManifestSubstitution
	for _, key := range slices.Sorted(maps.Keys(variables)) {
		if value := variables[key]; substitutionKey.MatchString(key) && len(value) <= maxValue {
			found = append(found, operatorv1alpha1.ClusterAPIInstallerRevisionManifestSubstitution{Key: key, Value: &value})
		}
	}
	return limit(found, maxSubstitutions)
}

// components returns the components from images; the official API has no other
// kind.
func components(all []v1alpha1.Component) []operatorv1alpha1.ClusterAPIInstallerComponent {
	var found []operatorv1alpha1.ClusterAPIInstallerComponent
	for _, component := range all {
		reference := imageReference(string(component.Image))
		if reference == "" {
			continue
		}
		found = append(found, operatorv1alpha1.ClusterAPIInstallerComponent{
			Name: notInName.ReplaceAllString(component.Name, "-"),
			ClusterAPIInstallerComponentSource: operatorv1alpha1.ClusterAPIInstallerComponentSource{
				Type:  operatorv1alpha1.InstallerComponentTypeImage,
				Image: operatorv1alpha1.ClusterAPIInstallerComponentImage{Ref: operatorv1alpha1.ImageDigestFormat(reference), Profile: cmp.Or(component.Profile, defaultProfile)},
			},
		})
	}
	return limit(found, maxComponents)
}

var (
	notInName  = regexp.MustCompile(`[^A-Za-z0-9-]`)
	repository = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[A-Fa-f0-9:]+\])(:[0-9]+)?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)+$`)
)

// imageReference returns a reference by digest without a tag; empty if the official
// API does not accept it.
func imageReference(reference string) string {
	name, digest, byDigest := strings.Cut(reference, "@")
	if tag := strings.LastIndexByte(name, ':'); tag > strings.LastIndexByte(name, '/') {
		name = name[:tag]
	}
	if !byDigest || !repository.MatchString(name) || len(name)+len(digest) > 446 {
		return ""
	}
	return name + "@" + digest
}

func limit[T any](all []T, most int) []T { return all[:min(len(all), most)] }
