// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

const (
	// chunkSize is how many bytes one ConfigMap holds. A ConfigMap may hold 1 MiB.
	chunkSize = 900 << 10
	// maxParts bounds the number of ConfigMaps that a version is read from.
	maxParts = 128
	// dataKey is the key of binaryData under which the stored set lies.
	dataKey = "manifests.json.zst"
)

// ConfigMaps returns the ConfigMaps that hold a version: the revision ConfigMap,
// which has the version's name, and, where the stored set does not fit into one,
// the ConfigMaps that continue it, <name>.1 and so on. They are immutable, and stay
// until the finalizer on each is removed: what they hold is needed to the end. owner
// is the controller of the first one; when that one is created, SetOwner makes it the
// owner of the others.
func ConfigMaps(name string, owner metav1.OwnerReference, stored Stored) []*corev1.ConfigMap {
	chunks := slices.Collect(slices.Chunk(stored.Data, chunkSize))
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	configMaps := make([]*corev1.ConfigMap, len(chunks))
	for i, chunk := range chunks {
		configMaps[i] = &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   v1alpha1.OperatorNamespace,
				Name:        partName(name, i),
				Labels:      map[string]string{v1alpha1.RevisionPartLabel: name},
				Annotations: map[string]string{v1alpha1.ManifestsDigestAnnotation: stored.Digest.String()},
				Finalizers:  []string{v1alpha1.TeardownFinalizer},
			},
			Immutable:  new(true),
			BinaryData: map[string][]byte{dataKey: bytes.Clone(chunk)},
		}
	}
	first := configMaps[0]
	first.Labels = map[string]string{v1alpha1.RevisionLabel: name}
	first.Annotations[v1alpha1.PartsAnnotation] = strconv.Itoa(len(chunks))
	first.OwnerReferences = []metav1.OwnerReference{owner}
	return configMaps
}

// partName is the name of a ConfigMap of a version; 0 is the first one. It cannot
// be the name of another version, because what comes after the last dash is no number.
func partName(name string, part int) string {
	if part == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, part)
}

// SetOwner makes the first ConfigMap of a version the owner of one that continues
// it. first must have been created: an owner is named by its UID.
func SetOwner(part, first *corev1.ConfigMap) {
	part.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Name:       first.Name,
		UID:        first.UID,
		Controller: new(true),
	}}
}

// FromConfigMaps returns the stored set of a version from the ConfigMaps that
// hold it, which are found among others by their names. It checks that none is
// missing and that together they are what the digest on the first one says. The
// caller must still check that this is the digest that it knows.
func FromConfigMaps(name string, configMaps []corev1.ConfigMap) (Stored, error) {
	byName := map[string]*corev1.ConfigMap{}
	for i := range configMaps {
		byName[configMaps[i].Name] = &configMaps[i]
	}
	stored, parts, err := header(byName[name])
	if err != nil {
		return Stored{}, &Error{Version: name, ConfigMap: name, Err: err}
	}
	var errs []error
	for i := range parts {
		chunk, err := chunkOf(byName[partName(name, i)], stored.Digest)
		if err != nil {
			errs = append(errs, &Error{Version: name, ConfigMap: partName(name, i), Err: err})
		}
		stored.Data = append(stored.Data, chunk...)
	}
	if err := errors.Join(errs...); err != nil {
		return Stored{}, err
	}
	if err := stored.verify(); err != nil {
		return Stored{}, &Error{Version: name, ConfigMap: name, Err: err}
	}
	return stored, nil
}

// header reads from the first ConfigMap the digest, and in how many ConfigMaps the set lies.
func header(first *corev1.ConfigMap) (Stored, int, error) {
	if first == nil {
		return Stored{}, 0, errMissing
	}
	expected, err := digest.Parse(first.Annotations[v1alpha1.ManifestsDigestAnnotation])
	if err != nil || expected.Algorithm() != digest.SHA256 {
		return Stored{}, 0, fmt.Errorf("annotation %s is %q, and should be a SHA-256 digest", v1alpha1.ManifestsDigestAnnotation, first.Annotations[v1alpha1.ManifestsDigestAnnotation])
	}
	parts, err := strconv.Atoi(first.Annotations[v1alpha1.PartsAnnotation])
	if err != nil || parts < 1 || parts > maxParts {
		return Stored{}, 0, fmt.Errorf("annotation %s is %q, and should be a number from 1 to %d", v1alpha1.PartsAnnotation, first.Annotations[v1alpha1.PartsAnnotation], maxParts)
	}
	return Stored{Digest: expected}, parts, nil
}

var errMissing = errors.New("it is missing")

// chunkOf returns what one ConfigMap holds of the stored set with that digest.
func chunkOf(configMap *corev1.ConfigMap, expected digest.Digest) ([]byte, error) {
	if configMap == nil {
		return nil, errMissing
	}
	if other := configMap.Annotations[v1alpha1.ManifestsDigestAnnotation]; other != expected.String() {
		return nil, fmt.Errorf("it belongs to other objects: annotation %s is %q, and %s on the first ConfigMap", v1alpha1.ManifestsDigestAnnotation, other, expected)
	}
	chunk, found := configMap.BinaryData[dataKey]
	if !found {
		return nil, fmt.Errorf("binaryData has no key %q", dataKey)
	}
	return chunk, nil
}
