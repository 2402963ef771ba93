// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Mode returns the patch that pauses or resumes the installer.
func Mode(mode v1alpha1.InstallerMode) Patch {
	return clusterAPI(map[string]any{"installerMode": string(mode)})
}

// SetOverrides returns the patch that replaces the images of some names; other overrides stay.
func SetOverrides(cluster *v1alpha1.ClusterAPI, images []v1alpha1.ImageOverride) Patch {
	overrides := slices.Clone(cluster.Spec.ImageOverrides)
	for _, image := range images {
		if at := indexOf(overrides, image.Name); at >= 0 {
			overrides[at] = image
		} else {
			overrides = append(overrides, image)
		}
	}
	return overridesPatch(cluster, overrides)
}

// ClearOverrides returns the patch that removes the overrides with some names, or all without names. A name without an
// override is an error.
func ClearOverrides(cluster *v1alpha1.ClusterAPI, names []string) (Patch, error) {
	overrides := slices.Clone(cluster.Spec.ImageOverrides)
	if len(names) == 0 {
		return overridesPatch(cluster, nil), nil
	}
	for _, name := range names {
		at := indexOf(overrides, name)
		if at < 0 {
			return Patch{}, fmt.Errorf("image %q has no override; spec.imageOverrides has %s", name, listed(overrides))
		}
		overrides = slices.Delete(overrides, at, at+1)
	}
	return overridesPatch(cluster, overrides), nil
}

func overridesPatch(cluster *v1alpha1.ClusterAPI, overrides []v1alpha1.ImageOverride) Patch {
	if len(overrides) == 0 {
		return current(cluster, map[string]any{"imageOverrides": nil})
	}
	list := make([]any, len(overrides))
	for i, override := range overrides {
		list[i] = map[string]any{"name": override.Name, "image": string(override.Image)}
	}
	return current(cluster, map[string]any{"imageOverrides": list})
}

func indexOf(overrides []v1alpha1.ImageOverride, name string) int {
	return slices.IndexFunc(overrides, func(o v1alpha1.ImageOverride) bool { return o.Name == name })
}

func listed(overrides []v1alpha1.ImageOverride) string {
	var names []string
	for _, override := range overrides {
		names = append(names, override.Name)
	}
	if names == nil {
		return "no entry"
	}
	return strings.Join(names, ", ")
}

// Unmanage returns the patch that adds CRDs to spec.unmanagedCRDs.
func Unmanage(cluster *v1alpha1.ClusterAPI, names []string) Patch {
	crds := slices.Clone(cluster.Spec.UnmanagedCRDs)
	for _, name := range names {
		if !slices.Contains(crds, name) {
			crds = append(crds, name)
		}
	}
	return unmanagedPatch(cluster, crds)
}

// Manage returns the patch that removes CRDs from spec.unmanagedCRDs. A CRD that is not in the list is an error.
func Manage(cluster *v1alpha1.ClusterAPI, names []string) (Patch, error) {
	crds := slices.Clone(cluster.Spec.UnmanagedCRDs)
	for _, name := range names {
		at := slices.Index(crds, name)
		if at < 0 {
			return Patch{}, fmt.Errorf("CRD %s is not in spec.unmanagedCRDs", name)
		}
		crds = slices.Delete(crds, at, at+1)
	}
	return unmanagedPatch(cluster, crds), nil
}

func unmanagedPatch(cluster *v1alpha1.ClusterAPI, crds []string) Patch {
	if len(crds) == 0 {
		return current(cluster, map[string]any{"unmanagedCRDs": nil})
	}
	list := make([]any, len(crds))
	for i, crd := range crds {
		list[i] = crd
	}
	return current(cluster, map[string]any{"unmanagedCRDs": list})
}
