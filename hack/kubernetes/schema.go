// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/internal/object"
)

// valuesSchema returns the schema of the chart's values: the value settings has the schema of the spec in the CRD, so that Helm rejects
// mistakes before it writes anything. The expressions of the CRD are checked by the API server only.
func valuesSchema(objects []*unstructured.Unstructured) ([]byte, error) {
	for _, o := range objects {
		if !object.IsCRD(o) {
			continue
		}
		versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil || len(versions) != 1 {
			return nil, errors.New("want one version of the CRD")
		}
		spec, _, err := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec")
		if err != nil {
			return nil, err
		}
		closeObjects(spec)
		content, err := json.Marshal(spec)
		return bytes.Replace(schemaFile, []byte(`"SETTINGS"`), content, 1), err
	}
	return nil, errors.New("the CRD of ClusterAPI not found")
}

// closeObjects lets a schema of a CRD reject unknown fields, and removes texts and the extensions of Kubernetes.
func closeObjects(schema map[string]any) {
	delete(schema, "description")
	delete(schema, "default")
	for key := range schema {
		if strings.HasPrefix(key, "x-kubernetes-") {
			delete(schema, key)
		}
	}
	properties, has := schema["properties"].(map[string]any)
	if has {
		schema["additionalProperties"] = false
	}
	for _, property := range properties {
		closeObjects(property.(map[string]any))
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if below, is := schema[key].(map[string]any); is {
			closeObjects(below)
		}
	}
}
