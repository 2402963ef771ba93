// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// countingMapper counts the lookups of a mapper.
type countingMapper struct {
	meta.RESTMapper
	lookups int
}

func (m *countingMapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	m.lookups++
	return m.RESTMapper.RESTMapping(kind, versions...)
}

func TestKnownMappings_KeepsOnlyWhatItFound(t *testing.T) {
	served := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "example.com", Version: "v1"}})
	counted := &countingMapper{RESTMapper: served}
	mapper := &knownMappings{RESTMapper: counted}
	widget := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	if _, err := mapper.RESTMapping(widget.GroupKind(), widget.Version); !meta.IsNoMatchError(err) {
		t.Fatalf("error is %v, want no match", err)
	}
	served.Add(widget, meta.RESTScopeNamespace)
	for range 3 {
		mapping, err := mapper.RESTMapping(widget.GroupKind(), widget.Version)
		if err != nil || mapping.Resource.Resource != "widgets" || mapping.Scope != meta.RESTScopeNamespace {
			t.Fatalf("got %v, %v", mapping, err)
		}
	}
	if counted.lookups != 2 {
		t.Errorf("%d lookups, want one before and one after the kind is served", counted.lookups)
	}
	if mapping, err := mapper.RESTMapping(widget.GroupKind()); err != nil || mapping.GroupVersionKind != widget {
		t.Errorf("without a version: got %v, %v", mapping, err)
	}
	if _, err := mapper.RESTMapping(widget.GroupKind(), "v2"); !meta.IsNoMatchError(err) {
		t.Errorf("another version: error is %v, want no match", err)
	}
}
