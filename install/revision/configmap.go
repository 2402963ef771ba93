// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"cmp"
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
	// chunkSize is the maximum of data in one ConfigMap, in bytes. The API server
	// allows 1 MiB.
	chunkSize = 900 << 10
	// maxParts limits the number of ConfigMaps of a version.
	maxParts = 128
	// dataKey is the key of the stored set in binaryData.
	dataKey = "manifests.json.zst"
)

// VersionOf returns the version that a ConfigMap is a part of; empty if there is none.
func VersionOf(configMap corev1.ConfigMap) string {
	return cmp.Or(configMap.Labels[v1alpha1.RevisionLabel], configMap.Labels[v1alpha1.RevisionPartLabel])
}

// ConfigMaps returns the ConfigMaps of a version in the installer's namespace: the revision ConfigMap with the
// name of the version and, if the stored set does not fit into it, further parts
// named <name>.1 and so on. They are immutable. A finalizer preserves each one
// until the teardown is complete, because the teardown needs their objects. owner
// is the controller of the revision ConfigMap. Once the revision ConfigMap is
// created, call SetOwner for the other parts.
func ConfigMaps(namespace, name string, owner metav1.OwnerReference, stored Stored) []*corev1.ConfigMap {
	chunks := slices.Collect(slices.Chunk(stored.Data, chunkSize))
	if len(chunks) == 0 {
		chunks = [][]byte{nil}
	}
	configMaps := make([]*corev1.ConfigMap, len(chunks))
	for i, chunk := range chunks {
		configMaps[i] = &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace:   namespace,
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

// partName returns the name of a part; part 0 is the revision ConfigMap. It cannot be the
// name of another version, because the text after the last dash is not a number.
func partName(name string, part int) string {
	if part == 0 {
		return name
	}
	return fmt.Sprintf("%s.%d", name, part)
}

// SetOwner makes the revision ConfigMap the owner of a further part. first must
// exist in the cluster, because an owner reference has a UID.
func SetOwner(part, first *corev1.ConfigMap) { part.OwnerReferences = ownedBy(first) }

func ownedBy(first *corev1.ConfigMap) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: "v1",
		Kind:       "ConfigMap",
		Name:       first.Name,
		UID:        first.UID,
		Controller: new(true),
	}}
}

// FromConfigMaps returns the stored set of a version. It finds the parts among
// configMaps by name, and verifies that none is missing and that the data matches the
// digest on the revision ConfigMap. The caller must compare this digest with the one in
// the status.
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

// header returns the digest and the number of parts from the revision ConfigMap.
func header(first *corev1.ConfigMap) (Stored, int, error) {
	if first == nil {
		return Stored{}, 0, errMissing
	}
	expected, err := digest.Parse(first.Annotations[v1alpha1.ManifestsDigestAnnotation])
	if err != nil || expected.Algorithm() != digest.SHA256 {
		return Stored{}, 0, fmt.Errorf("invalid annotation %s %q: want a SHA-256 digest", v1alpha1.ManifestsDigestAnnotation, first.Annotations[v1alpha1.ManifestsDigestAnnotation])
	}
	parts, err := strconv.Atoi(first.Annotations[v1alpha1.PartsAnnotation])
	if err != nil || parts < 1 || parts > maxParts {
		return Stored{}, 0, fmt.Errorf("invalid annotation %s %q: want a number from 1 to %d", v1alpha1.PartsAnnotation, first.Annotations[v1alpha1.PartsAnnotation], maxParts)
	}
	return Stored{Digest: expected}, parts, nil
}

var errMissing = errors.New("not found")

// chunkOf returns the data of one part of the stored set with a digest.
func chunkOf(configMap *corev1.ConfigMap, expected digest.Digest) ([]byte, error) {
	if configMap == nil {
		return nil, errMissing
	}
	if other := configMap.Annotations[v1alpha1.ManifestsDigestAnnotation]; other != expected.String() {
		return nil, fmt.Errorf("part of another set: annotation %s is %q, but %s on the revision ConfigMap", v1alpha1.ManifestsDigestAnnotation, other, expected)
	}
	chunk, found := configMap.BinaryData[dataKey]
	if !found {
		return nil, fmt.Errorf("key %q not found in binaryData", dataKey)
	}
	return chunk, nil
}
