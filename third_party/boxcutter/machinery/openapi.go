// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/openapi"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

const (
	// schemasMaxAge is the maximum age of the cached list of schemas.
	schemasMaxAge = time.Minute
	// schemasMinAge is the minimum time between two reads of the list, so that a
	// kind without a schema does not cause a request at every comparison.
	schemasMinAge = 2 * time.Second
)

// discoveryClient gives access to the OpenAPI v3 documents of an API server.
type discoveryClient interface {
	OpenAPIV3() openapi.Client
}

// schemas caches the schemas of group versions. It is safe for concurrent use.
type schemas struct {
	client discoveryClient
	// now returns the current time; nil means time.Now.
	now func() time.Time

	mu       sync.Mutex
	listed   map[string]openapi.GroupVersion
	listedAt time.Time
	versions map[string]*versionSchema
}

// versionSchema is the schema of all kinds of a group version.
type versionSchema struct {
	// url is the URL of the schema. It has a hash that changes with the schema.
	url       string
	converter managedfields.TypeConverter
	// withStatus has the kinds with a status subresource.
	withStatus map[string]bool
}

// of returns the schema of a group version, or nil. It reads the list of schemas
// again if the list is too old or if newest is true.
func (s *schemas) of(version schema.GroupVersion, newest bool) (*versionSchema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.list(newest); err != nil {
		return nil, err
	}
	path := openAPIPath(version)
	listed, found := s.listed[path]
	if !found {
		delete(s.versions, path)
		return nil, nil
	}
	if known := s.versions[path]; known != nil && known.url == listed.ServerRelativeURL() {
		return known, nil
	}
	read, err := readSchema(listed)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", version, err)
	}
	if s.versions == nil {
		s.versions = map[string]*versionSchema{}
	}
	s.versions[path] = read
	return read, nil
}

func (s *schemas) list(newest bool) error {
	now := time.Now
	if s.now != nil {
		now = s.now
	}
	maxAge := schemasMaxAge
	if newest {
		maxAge = schemasMinAge
	}
	if s.listed != nil && now().Sub(s.listedAt) < maxAge {
		return nil
	}
	listed, err := s.client.OpenAPIV3().Paths()
	if err != nil {
		return fmt.Errorf("listing the schemas of the API server: %w", err)
	}
	s.listed, s.listedAt = listed, now()
	return nil
}

// openAPIPath returns the path of a group version in OpenAPI v3 discovery.
func openAPIPath(version schema.GroupVersion) string {
	if version.Group == "" {
		return "api/" + version.Version
	}
	return "apis/" + version.Group + "/" + version.Version
}

// openAPIDocument is the part of an OpenAPI v3 document that schemas reads.
type openAPIDocument struct {
	Paths      map[string]openAPIOperations `json:"paths"`
	Components struct {
		Schemas map[string]*spec.Schema `json:"schemas"`
	} `json:"components"`
}

type openAPIOperations struct {
	Get *openAPIOperation `json:"get"`
}

type openAPIOperation struct {
	Kind struct {
		Kind string `json:"kind"`
	} `json:"x-kubernetes-group-version-kind"`
}

func readSchema(version openapi.GroupVersion) (*versionSchema, error) {
	data, err := version.Schema("application/json")
	if err != nil {
		return nil, err
	}
	var document openAPIDocument
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	converter, err := managedfields.NewTypeConverter(document.Components.Schemas, false)
	if err != nil {
		return nil, err
	}
	return &versionSchema{
		url:        version.ServerRelativeURL(),
		converter:  converter,
		withStatus: kindsWithStatus(document.Paths),
	}, nil
}

// kindsWithStatus returns the kinds with a path ".../{name}/status".
func kindsWithStatus(paths map[string]openAPIOperations) map[string]bool {
	kinds := map[string]bool{}
	for path, operations := range paths {
		if strings.HasSuffix(path, "/{name}/status") && operations.Get != nil {
			kinds[operations.Get.Kind.Kind] = true
		}
	}
	return kinds
}

// pair converts both objects to typed values, and returns false if they do not
// match the schema.
func (v *versionSchema) pair(desired, actual *unstructured.Unstructured) (typedPair, bool) {
	desiredTyped, err := v.converter.ObjectToTyped(desired, typed.AllowDuplicates)
	if err != nil {
		return typedPair{}, false
	}
	actualTyped, err := v.converter.ObjectToTyped(actual, typed.AllowDuplicates)
	if err != nil {
		return typedPair{}, false
	}
	pair := typedPair{desired: desiredTyped, actual: actualTyped, ignored: ignored}
	if v.withStatus[desired.GetKind()] {
		pair.ignored = ignoredWithStatus
	}
	return pair, true
}
