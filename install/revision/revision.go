// SPDX-License-Identifier: Apache-2.0

// Package revision turns a set of operands into what is kept of it and what is
// done with it: the stored form in ConfigMaps, and the phases in which its
// objects are applied. It is pure: values in, values out.
package revision

import (
	"github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
)

// Stored is a rendered set as it is kept.
type Stored struct {
	// Digest is the SHA-256 of Data.
	Digest digest.Digest
	Data   []byte
}

func Encode(set operand.Set) (Stored, error) { return Stored{}, nil }

func (s Stored) Decode() (operand.Set, error) { return operand.Set{}, nil }

func Same(version v1alpha1.Version, set operand.Set, unmanaged []string) bool { return false }

func Number(name string) (int64, error) { return 0, nil }

func Next(history []v1alpha1.Version, release string) (name string, number int64, err error) {
	return "", 0, nil
}

func ConfigMaps(name string, owner metav1.OwnerReference, stored Stored) []*corev1.ConfigMap {
	return nil
}

func SetOwner(part, first *corev1.ConfigMap) {}

func FromConfigMaps(name string, configMaps []corev1.ConfigMap) (Stored, error) {
	return Stored{}, nil
}

type Phase struct {
	Name    string
	Objects []*unstructured.Unstructured
}

func Phases(name string, number int64, set operand.Set, unmanaged []string) ([]Phase, error) {
	return nil, nil
}
