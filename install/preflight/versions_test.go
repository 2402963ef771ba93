// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/capicontract"
)

// Module test/clusterctl compares the same upgrades with clusterctl's own code.
func TestVersions_SkippedMinors(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind, name, from, to string
		risk                 bool
	}{
		"three minors":                        {"core", "cluster-api", "v1.10.0", "v1.13.9", false},
		"four minors":                         {"core", "cluster-api", "v1.10.0", "v1.14.0", true},
		"four minors of a provider by others": {"infrastructure", "aws", "v2.0.0", "v2.9.0", false},
		"kubeadm":                             {"bootstrap", "cluster-api-bootstrap-kubeadm", "v1.11.1", "v1.15.0", true},
		"another bootstrap provider":          {"bootstrap", "rke2", "v1.11.1", "v1.15.0", false},
		"an old version":                      {"core", "cluster-api", "v1.9.9", "v1.14.0", false},
		"back":                                {"core", "cluster-api", "v1.14.0", "v1.10.0", false},
		"no version":                          {"core", "cluster-api", "", "v1.14.0", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := func(version string) []v1alpha1.Component {
				return []v1alpha1.Component{{Name: test.name, Type: test.kind, Version: version}}
			}
			found := Release{Installed: of(test.from), Components: of(test.to)}.versions()
			if (len(found) == 1 && found[0].Risk == v1alpha1.SkippedVersions) != test.risk || !test.risk && found != nil {
				t.Errorf("findings %v, want a risk: %t", found, test.risk)
			}
		})
	}
}

// A provider is compared with itself.
func TestVersions_OfAnotherProvider(t *testing.T) {
	t.Parallel()
	kubeadm := v1alpha1.Component{Type: "bootstrap", Name: "cluster-api-bootstrap-kubeadm", Version: "v1.15.0"}
	for _, installed := range []v1alpha1.Component{
		{Type: "bootstrap", Name: "rke2", Version: "v1.10.0"}, {Type: "controlplane", Name: kubeadm.Name, Version: "v1.10.0"},
	} {
		if found := (Release{Installed: []v1alpha1.Component{installed}, Components: []v1alpha1.Component{kubeadm}}).versions(); found != nil {
			t.Errorf("after %v: %v", installed, found)
		}
	}
}

func TestVersions_UnsupportedContract(t *testing.T) {
	t.Parallel()
	crd := func(name string, labels map[string]string) *unstructured.Unstructured {
		out := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}}
		out.SetName(name)
		out.SetLabels(labels)
		return out
	}
	label := func(contract string) map[string]string {
		return map[string]string{"cluster.x-k8s.io/" + contract: "v1"}
	}
	for name, test := range map[string]struct {
		core, provider string
		risk           bool
	}{
		"the same contract":     {"v1beta2", "v1beta2", false},
		"the contract before":   {"v1beta2", "v1beta1", false},
		"an old contract":       {"v1beta2", "v1alpha4", true},
		"a newer contract":      {"v1beta1", "v1beta2", true},
		"a core without labels": {"", "v1alpha4", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := Release{Unchanged: []revision.Phase{{Part: revision.Part{Component: "core/cluster-api"}, Objects: []*unstructured.Unstructured{crd(capicontract.CoreCRD, label(test.core))}}},
				Phases: []revision.Phase{{Part: revision.Part{Component: "infrastructure/x"}, Objects: []*unstructured.Unstructured{
					crd("xs.example.com", label(test.provider)), crd("internal.example.com", nil),
				}}}}.versions()
			if (len(found) == 1 && found[0].Risk == v1alpha1.UnsupportedContract) != test.risk || !test.risk && found != nil {
				t.Errorf("findings %v, want a risk: %t", found, test.risk)
			}
		})
	}
}
