// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"k8s.io/client-go/rest"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/capi-installer/capi-installer/test/registry"
)

// Beds can share a registry: the first that is closed must not take it from the others.
func TestBed_ClosesOnlyItsOwnRegistry(t *testing.T) {
	shared := registry.New(t, registry.Options{})
	bed, err := New(&controlplane.Cluster{Config: &rest.Config{Host: "127.0.0.1:1"}}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	own := bed.Registry
	bed.Registry = shared
	if err := bed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := shared.Push("test/shared", empty.Image); err != nil {
		t.Errorf("the shared registry does not serve: %v", err)
	}
	if _, err := own.Push("test/own", empty.Image); err == nil {
		t.Error("the registry of the bed still serves after Close")
	}
}
