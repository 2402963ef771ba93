// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

const testVersion = "4.22.3-6"

var testOwner = metav1.OwnerReference{APIVersion: "capi-operator.openshift.io/v1alpha1", Kind: "ClusterAPI", Name: "cluster", UID: "7", Controller: new(true)}

// storedOf returns a stored form of the given length.
func storedOf(length int) Stored {
	data := make([]byte, length)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(data) // never fails
	return Stored{Digest: digest.FromBytes(data), Data: data}
}

// written returns the ConfigMaps of a stored form as they are read back.
func written(stored Stored) []corev1.ConfigMap {
	out := []corev1.ConfigMap{{ObjectMeta: metav1.ObjectMeta{Name: "kube-root-ca.crt"}}}
	for _, configMap := range ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, testVersion, testOwner, stored) {
		out = append(out, *configMap)
	}
	return out
}

func TestConfigMaps_OneIfItFits(t *testing.T) {
	stored := storedOf(100)
	want := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshift-cluster-api-operator", Name: "4.22.3-6",
			Labels: map[string]string{"capi-operator.openshift.io/revision": "4.22.3-6"},
			Annotations: map[string]string{
				"capi-operator.openshift.io/manifests-digest": stored.Digest.String(),
				"capi-operator.openshift.io/parts":            "1",
			},
			Finalizers:      []string{"capi-operator.openshift.io/teardown"},
			OwnerReferences: []metav1.OwnerReference{testOwner},
		},
		Immutable:  new(true),
		BinaryData: map[string][]byte{"manifests.json.zst": stored.Data},
	}
	if diff := cmp.Diff([]*corev1.ConfigMap{want}, ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, testVersion, testOwner, stored)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if most := ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, testVersion, testOwner, storedOf(chunkSize)); len(most) != 1 {
		t.Errorf("%d bytes need %d ConfigMaps, want 1", chunkSize, len(most))
	}
}

func TestConfigMaps_PartsOfALargeSet(t *testing.T) {
	stored := storedOf(2*chunkSize + 1)
	configMaps := ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, testVersion, testOwner, stored)
	if len(configMaps) != 3 {
		t.Fatalf("%d ConfigMaps, want 3", len(configMaps))
	}
	configMaps[0].UID = "first"
	for i, configMap := range configMaps[1:] {
		SetOwner(configMap, configMaps[0])
		chunk := configMap.BinaryData[dataKey]
		configMap.BinaryData = nil
		want := &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "openshift-cluster-api-operator", Name: []string{"4.22.3-6.1", "4.22.3-6.2"}[i],
				Labels:          map[string]string{"capi-operator.openshift.io/revision-part": "4.22.3-6"},
				Annotations:     map[string]string{"capi-operator.openshift.io/manifests-digest": stored.Digest.String()},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "4.22.3-6", UID: "first", Controller: new(true)}},
				Finalizers:      []string{"capi-operator.openshift.io/teardown"},
			},
			Immutable: new(true),
		}
		if diff := cmp.Diff(want, configMap); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if len(chunk) > chunkSize || len(chunk) == 0 {
			t.Errorf("%s has %d bytes", configMap.Name, len(chunk))
		}
		if problems := validation.IsDNS1123Subdomain(configMap.Name); problems != nil {
			t.Errorf("invalid name %s: %v", configMap.Name, problems)
		}
		if _, err := Number(configMap.Name); err == nil {
			t.Errorf("%s could be the name of a version", configMap.Name)
		}
	}
}

func TestFromConfigMaps_RoundTrip(t *testing.T) {
	for _, length := range []int{0, 1, chunkSize - 1, chunkSize, chunkSize + 1, 3 * chunkSize} {
		stored := storedOf(length)
		got, err := FromConfigMaps(testVersion, written(stored))
		if err != nil {
			t.Errorf("%d bytes: %v", length, err)
		}
		if got.Digest != stored.Digest || !bytes.Equal(got.Data, stored.Data) {
			t.Errorf("stored %d bytes, read %d", length, len(got.Data))
		}
	}
}

func TestConfigMaps_CopyTheData(t *testing.T) {
	stored := storedOf(chunkSize + 10)
	configMaps := ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, testVersion, testOwner, stored)
	configMaps[0].BinaryData[dataKey][0]++
	_ = append(configMaps[0].BinaryData[dataKey], 1)
	if digest.FromBytes(stored.Data) != stored.Digest {
		t.Error("the stored form shares memory with the ConfigMap")
	}
}

func TestFromConfigMaps_Errors(t *testing.T) {
	// The revision ConfigMap is at index 1, followed by its parts.
	tests := map[string]struct {
		change    func(c []corev1.ConfigMap) []corev1.ConfigMap
		configMap string
		want      string
	}{
		"all are missing": {
			func([]corev1.ConfigMap) []corev1.ConfigMap { return nil }, "4.22.3-6", "not found",
		},
		"a part is missing": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap { return c[:3] }, "4.22.3-6.2", "not found",
		},
		"the digest is missing": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				c[1].Annotations[v1alpha1.ManifestsDigestAnnotation] = ""
				return c
			},
			"4.22.3-6", `invalid annotation capi-operator.openshift.io/manifests-digest "": want a SHA-256 digest`,
		},
		"the digest has a weaker algorithm": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				c[1].Annotations[v1alpha1.ManifestsDigestAnnotation] = "md5:00"
				return c
			},
			"4.22.3-6", "want a SHA-256 digest",
		},
		"the number of parts is missing": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				c[1].Annotations = map[string]string{v1alpha1.ManifestsDigestAnnotation: c[1].Annotations[v1alpha1.ManifestsDigestAnnotation]}
				return c
			},
			"4.22.3-6", `invalid annotation capi-operator.openshift.io/parts "": want a number from 1 to 128`,
		},
		"the number of parts is too large": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				c[1].Annotations[v1alpha1.PartsAnnotation] = "1000000000"
				return c
			},
			"4.22.3-6", "want a number from 1 to 128",
		},
		"the number of parts is too small": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				c[1].Annotations[v1alpha1.PartsAnnotation] = "2"
				return c
			},
			"4.22.3-6", "the stored objects were modified",
		},
		"a part belongs to another version": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap { c[2].Annotations = nil; return c },
			"4.22.3-6.1", "part of another set",
		},
		"a part has no data": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap { c[2].BinaryData = nil; return c },
			"4.22.3-6.1", `key "manifests.json.zst" not found in binaryData`,
		},
		"a byte is modified": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap { c[2].BinaryData[dataKey][7]++; return c },
			"4.22.3-6", "the stored objects were modified: digest is sha256:",
		},
		"the digest is of other objects": {
			func(c []corev1.ConfigMap) []corev1.ConfigMap {
				for i := range c {
					c[i].Annotations = map[string]string{v1alpha1.PartsAnnotation: "3", v1alpha1.ManifestsDigestAnnotation: digest.FromString("x").String()}
				}
				return c
			},
			"4.22.3-6", "the stored objects were modified",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			stored, err := FromConfigMaps(testVersion, test.change(written(storedOf(2*chunkSize+1))))
			var typed *Error
			if !errors.As(err, &typed) || typed.Version != testVersion || typed.ConfigMap != test.configMap || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one about %s with %q", err, test.configMap, test.want)
			}
			if stored.Data != nil {
				t.Error("got data in addition to an error")
			}
		})
	}
}

func TestSameObjects_IgnoresSources(t *testing.T) {
	set := func() operand.Set {
		object := &unstructured.Unstructured{Object: map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"replicas": int64(2)}}}
		return operand.Set{ContentID: "sha256:a", Operands: []operand.Operand{{
			Name: "cluster-api", Type: "core", Version: "v1", ContentID: "sha256:b",
			Origin: extractor.Origin{Image: "quay.io/x@sha256:c"}, Objects: []*unstructured.Unstructured{object},
		}}}
	}
	moved := set()
	moved.ContentID, moved.Operands[0].Version, moved.Operands[0].Origin = "sha256:other", "v2", extractor.Origin{ConfigMaps: []string{"a"}}
	if stored, err := Encode(moved); err != nil {
		t.Fatal(err)
	} else if decoded, err := stored.Decode(); err != nil || !SameObjects(set(), decoded) {
		t.Errorf("sets of the same objects differ (%v)", err)
	}
	for name, change := range map[string]func(*operand.Set){
		"name":   func(s *operand.Set) { s.Operands[0].Name = "other" },
		"type":   func(s *operand.Set) { s.Operands[0].Type = "addon" },
		"field":  func(s *operand.Set) { s.Operands[0].Objects[0].Object["data"] = map[string]any{"replicas": int64(3)} },
		"object": func(s *operand.Set) { s.Operands[0].Objects = nil },
		"part":   func(s *operand.Set) { s.Operands = append(s.Operands, s.Operands[0]) },
	} {
		other := set()
		change(&other)
		if SameObjects(set(), other) {
			t.Errorf("SameObjects is true for sets that differ in a %s", name)
		}
	}
}
