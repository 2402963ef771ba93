// SPDX-License-Identifier: Apache-2.0

package crdcache

import (
	"fmt"

	"github.com/klauspost/compress/s2"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/capi-installer/capi-installer/internal/object"
)

// PackVersions compresses spec.versions of a CRD in place: the schemas are nearly all of a
// CRD. Other objects stay as they are.
func PackVersions(crd *unstructured.Unstructured) error {
	spec := object.MapAt(crd.Object, "spec")
	versions, found := spec["versions"]
	if !object.IsCRD(crd) || !found || isPacked(crd) {
		return nil
	}
	packed, err := pack(versions)
	if err != nil {
		return fmt.Errorf("compressing the versions of CRD %s: %w", crd.GetName(), err)
	}
	spec["versions"] = packed
	return nil
}

// UnpackVersions returns a CRD with spec.versions, as a copy if PackVersions has compressed
// them. Other objects are returned as they are.
func UnpackVersions(crd *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !isPacked(crd) {
		return crd, nil
	}
	out := crd.DeepCopy()
	spec := object.MapAt(out.Object, "spec")
	var versions []any
	if err := unpack(spec["versions"].(string), &versions); err != nil {
		return nil, fmt.Errorf("decompressing the versions of CRD %s: %w", crd.GetName(), err)
	}
	spec["versions"] = versions
	return out, nil
}

// isPacked reports whether an object is a CRD with compressed versions.
func isPacked(crd *unstructured.Unstructured) bool {
	_, packed := object.MapAt(crd.Object, "spec")["versions"].(string)
	return object.IsCRD(crd) && packed
}

// pack encodes and compresses a value of an object.
func pack(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	return string(s2.EncodeBetter(nil, content)), nil
}

// unpack decodes a value that pack has encoded.
func unpack[T any](packed string, into *T) error {
	content, err := s2.Decode(nil, []byte(packed))
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}
