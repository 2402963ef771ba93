// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// modelSchemas are the OpenAPI documents of a real API server, reduced to the kinds of
// the sequences in memory: an engine reads them again after each restart.
type modelSchemas struct{}

func (modelSchemas) OpenAPIV3() openapi.Client { return modelSchemas{} }

// Paths returns the documents.
func (modelSchemas) Paths() (map[string]openapi.GroupVersion, error) { return modelDocuments() }

var modelDocuments = sync.OnceValues(func() (map[string]openapi.GroupVersion, error) {
	whole, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		return nil, err
	}
	out := map[string]openapi.GroupVersion{}
	for path, kind := range map[string]string{"api/v1": "io.k8s.api.core.v1.ConfigMap", "apis/apps/v1": "io.k8s.api.apps.v1.Deployment"} {
		document, err := whole[path].Schema(runtime.ContentTypeJSON)
		if err != nil {
			return nil, err
		}
		if document, err = modelTrimmed(document, kind); err != nil {
			return nil, fmt.Errorf("trimming the schema of %s: %w", path, err)
		}
		out[path] = modelDocument{GroupVersion: whole[path], document: document}
	}
	return out, nil
})

// modelDocument is the trimmed document of a group version.
type modelDocument struct {
	openapi.GroupVersion

	document []byte
}

func (d modelDocument) Schema(string) ([]byte, error) { return d.document, nil }

// modelTrimmed reduces a document to one kind, the types that it refers to, and its
// paths.
func modelTrimmed(data []byte, kind string) ([]byte, error) {
	var document struct {
		OpenAPI    string                     `json:"openapi"`
		Paths      map[string]json.RawMessage `json:"paths"`
		Components struct {
			Schemas map[string]json.RawMessage `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &document); err != nil {
		return nil, err
	}
	all := document.Components.Schemas
	document.Components.Schemas = map[string]json.RawMessage{}
	for queue := []string{kind}; len(queue) > 0; queue = queue[1:] {
		if _, done := document.Components.Schemas[queue[0]]; done {
			continue
		}
		document.Components.Schemas[queue[0]] = all[queue[0]]
		for _, part := range strings.Split(string(all[queue[0]]), "#/components/schemas/")[1:] {
			name, _, _ := strings.Cut(part, `"`)
			queue = append(queue, name)
		}
	}
	resource := "/" + strings.ToLower(kind[strings.LastIndex(kind, ".")+1:]) + "s"
	for path := range document.Paths {
		if !strings.Contains(path, resource) {
			delete(document.Paths, path)
		}
	}
	return json.Marshal(document)
}
