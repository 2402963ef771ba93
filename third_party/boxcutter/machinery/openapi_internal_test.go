// SPDX-License-Identifier: Apache-2.0

package machinery

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
)

// versions is an API server with one schema, at a URL that the test can change.
type versions struct{ url string }

func (v *versions) OpenAPIV3() openapi.Client { return v }

func (v *versions) Paths() (map[string]openapi.GroupVersion, error) {
	if v.url == "" {
		return map[string]openapi.GroupVersion{}, nil
	}
	return map[string]openapi.GroupVersion{"apis/example.com/v1": version{url: v.url}}, nil
}

type version struct {
	openapitest.FakeGroupVersion
	url string
}

func (v version) ServerRelativeURL() string { return v.url }

func (v version) Schema(string) ([]byte, error) { return []byte(`{"openapi": "3.0.0"}`), nil }

func TestSchemaCache_RefreshesAfterDiscoveryChange(t *testing.T) {
	server := &versions{}
	now := time.Now()
	schemas := schemas{client: server, now: func() time.Time { return now }}
	steps := []struct {
		what   string
		wait   time.Duration
		serve  string
		newest bool
		want   string
	}{
		{what: "no schema", serve: "", want: ""},
		{what: "the list is cached", serve: "one", want: ""},
		{what: "a newer list is not read immediately", serve: "one", newest: true, want: ""},
		{what: "the list is read again after a short time", wait: schemasMinAge, serve: "one", newest: true, want: "one"},
		{what: "the schema is cached", serve: "two", want: "one"},
		{what: "the list is read again after a longer time", wait: schemasMaxAge, serve: "two", want: "two"},
		{what: "a removed schema is dropped", wait: schemasMaxAge, serve: "", want: ""},
	}
	for _, step := range steps {
		now = now.Add(step.wait)
		server.url = step.serve
		got, err := schemas.of(schema.GroupVersion{Group: "example.com", Version: "v1"}, step.newest)
		if err != nil {
			t.Fatal(err)
		}
		url := ""
		if got != nil {
			url = got.url
		}
		if url != step.want {
			t.Errorf("%s: got the schema of %q, want %q", step.what, url, step.want)
		}
	}
}
