// SPDX-License-Identifier: Apache-2.0

// Package crdpack compresses the versions of CustomResourceDefinitions in memory. Their
// schemas are nearly all of the data of a provider, and decoded they take about ten times as
// much memory as encoded.
package crdpack

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/klauspost/compress/s2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/capi-installer/capi-installer/internal/object"
)

// packedVersions is the field of a packed CRD that replaces spec.versions.
const packedVersions = "spec.versions, compressed"

// maxVersions is the maximum length of decompressed JSON, in bytes.
const maxVersions = 64 << 20

// Pack compresses spec.versions of a CRD in place. Other objects stay as they are. It rejects an object that seems to be
// packed already, because the content would be the author's.
func Pack(obj *unstructured.Unstructured) error {
	if isPacked(obj) {
		return fmt.Errorf("field %q of %s %s is reserved; remove it", packedVersions, obj.GetKind(), obj.GetName())
	}
	spec := object.MapAt(obj.Object, "spec")
	versions, isList := spec["versions"].([]any)
	if !object.IsCRD(obj) || !isList {
		return nil
	}
	packed, err := Compress(versions)
	if err != nil {
		return fmt.Errorf("compressing the versions of CRD %s: %w", obj.GetName(), err)
	}
	delete(spec, "versions")
	obj.Object[packedVersions] = packed
	return nil
}

// Decode reads an object from JSON and packs it. It does not decode the versions of a CRD.
func Decode(data []byte) (*unstructured.Unstructured, error) {
	var fields, spec map[string]stdjson.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	if _, found := fields[packedVersions]; found {
		return nil, fmt.Errorf("field %q is reserved", packedVersions)
	}
	obj := &unstructured.Unstructured{}
	if json.Unmarshal(fields["spec"], &spec) != nil || !bytes.HasPrefix(spec["versions"], []byte("[")) || !isCRD(data) {
		return obj, json.Unmarshal(data, &obj.Object)
	}
	packed := string(s2.EncodeBetter(nil, spec["versions"]))
	delete(spec, "versions")
	var err error
	if fields["spec"], err = encode(spec); err != nil {
		return nil, err
	}
	rest, err := encode(fields)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(rest, &obj.Object); err != nil {
		return nil, err
	}
	obj.Object[packedVersions] = packed
	return obj, nil
}

// isCRD reports whether the JSON of an object describes a CRD.
func isCRD(data []byte) bool {
	var kind metav1.TypeMeta
	return json.Unmarshal(data, &kind) == nil && kind.GroupVersionKind().GroupKind() == object.CustomResourceDefinition
}

// Unpack returns the whole object: a copy of a packed CRD, and any other object itself.
func Unpack(obj *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	if !isPacked(obj) {
		return obj, nil
	}
	fields, err := whole(obj.DeepCopy(), func(content []byte) (versions any, err error) {
		err = json.Unmarshal(content, &versions)
		return versions, err
	})
	if err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: fields}, nil
}

// Encode returns the compact JSON of the whole object. Unlike json.Marshal, it does not escape HTML.
func Encode(obj *unstructured.Unstructured) ([]byte, error) {
	if !isPacked(obj) {
		return encode(obj.Object)
	}
	fields, err := whole(obj, func(content []byte) (any, error) { return stdjson.RawMessage(content), nil })
	if err != nil {
		return nil, err
	}
	return encode(fields)
}

func isPacked(obj *unstructured.Unstructured) bool {
	_, packed := obj.Object[packedVersions].(string)
	return packed
}

// whole returns the fields of a packed CRD with its versions. decode makes the versions
// from their JSON. It shares the other fields with the CRD.
func whole(crd *unstructured.Unstructured, decode func([]byte) (any, error)) (map[string]any, error) {
	fields := maps.Clone(crd.Object)
	spec := maps.Clone(object.MapAt(fields, "spec"))
	content, err := decompress(fields[packedVersions].(string))
	if err == nil && spec == nil {
		err = errors.New("spec not found")
	}
	if err == nil {
		spec["versions"], err = decode(content)
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing the versions of CRD %s: %w", crd.GetName(), err)
	}
	delete(fields, packedVersions)
	fields["spec"] = spec
	return fields, nil
}

// Compress encodes and compresses a value of an object.
func Compress(value any) (string, error) {
	content, err := encode(value)
	if err != nil {
		return "", err
	}
	return string(s2.EncodeBetter(nil, content)), nil
}

// Decompress decodes a value that Compress has encoded.
func Decompress(packed string, into any) error {
	content, err := decompress(packed)
	if err != nil {
		return err
	}
	return json.Unmarshal(content, into)
}

func decompress(packed string) ([]byte, error) {
	length, err := s2.DecodedLen([]byte(packed))
	if err != nil {
		return nil, err
	}
	if length > maxVersions {
		return nil, fmt.Errorf("%d bytes, more than the limit of %d", length, maxVersions)
	}
	return s2.Decode(nil, []byte(packed))
}

func encode(value any) ([]byte, error) {
	var content bytes.Buffer
	encoder := stdjson.NewEncoder(&content)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(content.Bytes(), []byte("\n")), nil
}
