// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
)

// revisionObjects is a version read back from its ConfigMaps.
type revisionObjects struct {
	name string
	// owner is the version that the objects name as their owner, number its number.
	// It is another one where a version has taken over the objects of one before as they are.
	owner     string
	number    int64
	digest    string
	unmanaged []string
	phases    []revision.Phase
	// scope is how much of it is looked after.
	scope scope
	// returning are CRDs that were unmanaged in an older version, by its number.
	returning map[string]int64
	// withheld says of each of them why it is not taken back.
	withheld []string

	stored revision.Stored
}

// read puts a version together from the ConfigMaps that hold it, and verifies
// their digest. Its phases are made by plan, once it is known which CRDs are unmanaged.
func read(configMaps []corev1.ConfigMap, name string) (*revisionObjects, error) {
	stored, err := revision.FromConfigMaps(name, configMaps)
	if err != nil {
		return nil, fmt.Errorf("reading revision ConfigMap %s: %w", name, err)
	}
	owner := installedAs(configMaps, name)
	number, err := revision.Number(owner)
	if err != nil {
		return nil, err
	}
	return &revisionObjects{name: name, owner: owner, number: number, digest: stored.Digest.String(), stored: stored}, nil
}

// installedAs is the version that the objects of a version name as their owner.
func installedAs(configMaps []corev1.ConfigMap, name string) string {
	for i := range configMaps {
		if as := configMaps[i].Annotations[v1alpha1.InstalledAsAnnotation]; as != "" && configMaps[i].Name == name {
			return as
		}
	}
	return name
}

// plan decodes the stored set and divides it into phases.
func (r *revisionObjects) plan() error {
	set, err := r.stored.Decode()
	if err != nil {
		return fmt.Errorf("reading version %s: %w", r.name, err)
	}
	r.phases, err = revision.Phases(r.name, r.number, set, r.unmanaged)
	if err != nil {
		return fmt.Errorf("dividing version %s into phases: %w", r.name, err)
	}
	return nil
}

// kinds are the kinds of all objects of the version.
func (r *revisionObjects) kinds() sets.Set[schema.GroupVersionKind] {
	kinds := sets.New[schema.GroupVersionKind]()
	for _, phase := range r.phases {
		for _, obj := range phase.Objects {
			kinds.Insert(obj.GroupVersionKind())
		}
	}
	return kinds
}
