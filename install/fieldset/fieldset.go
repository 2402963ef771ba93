// SPDX-License-Identifier: Apache-2.0

// Package fieldset computes with the fields of installed objects, as sets of structured-merge-diff: with the schema of the API server, which
// defines the keys of lists.
//
// Server-side apply removes a field only if the installer has applied it, and no other field manager owns it. The fields of a create are not applied;
// after a restore from a backup, the restoring tool owns all fields; a controller that injects a CA bundle owns a part of a structure that is invalid without the rest. So Takeover
// makes the installer the only owner of all fields that the older version applied and the desired one does not, before the apply that removes
// them. It leaves to other actors:
//
//   - the fields of the drift policy;
//   - the CA bundle of a webhook that stays;
//   - fields that an actor has written through a subresource: the status, and the replicas of an autoscaler.
package fieldset

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"sigs.k8s.io/structured-merge-diff/v6/typed"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Schemas are the schemas of the API server. Each is read when it is needed first. They are safe for concurrent use.
type Schemas struct {
	// Discovery reads the OpenAPI documents; nil has none.
	Discovery discovery.OpenAPIV3SchemaInterface

	mutex sync.Mutex
	known map[schema.GroupVersion]managedfields.TypeConverter
}

// typed returns objects of the same kind as values with a schema. Without a schema that fits, lists are atomic.
func (s *Schemas) typed(objects ...*unstructured.Unstructured) (out []*typed.TypedValue, err error) {
	converter, err := s.of(objects[0].GroupVersionKind().GroupVersion())
	if err != nil {
		return nil, err
	}
	for _, with := range []managedfields.TypeConverter{converter, managedfields.NewDeducedTypeConverter()} {
		if out, err = convert(with, objects); err == nil {
			return out, nil
		}
	}
	return nil, err
}

func convert(with managedfields.TypeConverter, objects []*unstructured.Unstructured) (out []*typed.TypedValue, err error) {
	for _, obj := range objects {
		value, err := with.ObjectToTyped(obj, typed.AllowDuplicates)
		if err != nil {
			return nil, fmt.Errorf("reading the fields of %s: %w", object.Describe(obj), err)
		}
		out = append(out, value)
	}
	return out, nil
}

// of returns the schemas of a version of an API.
func (s *Schemas) of(version schema.GroupVersion) (managedfields.TypeConverter, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if known := s.known[version]; known != nil {
		return known, nil
	}
	if s.Discovery == nil {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	document, err := openapi3.NewRoot(s.Discovery.OpenAPIV3()).GVSpec(version)
	if errors.As(err, new(*openapi3.GroupVersionNotFoundError)) {
		return managedfields.NewDeducedTypeConverter(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", version, err)
	}
	converter, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", version, err)
	}
	if s.known == nil {
		s.known = map[schema.GroupVersion]managedfields.TypeConverter{}
	}
	s.known[version] = converter
	return converter, nil
}

// Forget drops the schemas: schemas of custom resources change with their CRD.
func (s *Schemas) Forget() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.known = nil
}
