// SPDX-License-Identifier: Apache-2.0

package setting_test

import (
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// Each real provider can have a namespace of its own: nothing in its objects refers to the former one, and no text needs a patch.
func TestNamespace_RealProviders(t *testing.T) {
	all, err := bundles.Sixteen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if all == nil {
		t.Skip("PROVIDERS is not set")
	}
	var settings setting.Settings
	for i := range all {
		all[i].Origin.Image = "registry.example.com/provider@sha256:" + strings.Repeat("0", 64)
		all[i].Metadata.ClusterProfile = extractor.Kubernetes
		name := all[i].Metadata.ProviderName
		settings.Components = append(settings.Components, v1alpha1.ComponentSettings{Name: name, Namespace: "own-" + name})
	}
	set, err := operand.Render(operand.Inputs{Bundles: all, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	for _, component := range set.Operands {
		own := map[string]bool{"ServiceAccount default": true}
		for _, obj := range component.Objects {
			own[obj.GetKind()+" "+obj.GetName()] = true
		}
		for _, obj := range component.Objects {
			for _, subject := range object.MapsAt(obj.Object, "subjects") {
				if account := object.TextAt(subject, "kind") + " " + object.TextAt(subject, "name"); object.TextAt(subject, "namespace") == "own-"+component.Name && !own[account] {
					t.Errorf("%s refers to %s of another component", object.Describe(obj), account)
				}
			}
			for _, config := range object.ClientConfigs(obj) {
				if service := object.TextAt(config, "service", "name"); service != "" && !own["Service "+service] {
					t.Errorf("%s refers to Service %s of another component", object.Describe(obj), service)
				}
			}
			if namespace := obj.GetNamespace(); namespace != "" && namespace != "own-"+component.Name && !strings.HasPrefix(namespace, "kube-") {
				t.Errorf("%s of %s is in another namespace", object.Describe(obj), component.Name)
			}
		}
	}
}
