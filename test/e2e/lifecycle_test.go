// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
	"github.com/capi-installer/capi-installer/test/fixture/bundles"
)

// used are the required providers of a cluster on AWS.
var used = []string{"cluster-api", "cluster-api-provider-aws"}

// realRelease pushes images of the real core and AWS providers and writes them to images.json. further are additional
// objects of the AWS provider.
func (h *harness) realRelease(providers []fixture.Provider, further string) {
	h.Helper()
	var all []extractor.Bundle
	for _, provider := range providers {
		provider.Kustomization = h.overlay(provider, further)
		bundle, err := bundles.Of(provider, transform.Options{})
		h.must(err)
		all = append(all, bundle)
	}
	h.releaseBundles(all...)
}

// overlay returns the kustomize directory of a provider; the AWS provider's has additional objects.
func (h *harness) overlay(provider fixture.Provider, further string) string {
	h.Helper()
	if further == "" || provider.Name != "cluster-api-provider-aws" {
		return provider.Kustomization
	}
	dir, err := os.MkdirTemp(filepath.Dir(provider.Kustomization), "further-")
	h.must(err)
	h.must(fixture.WriteKustomization(dir, []byte(further)))
	h.must(os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte("resources: [../default, manifests.yaml]\n"), 0o600))
	return dir
}

const furtherConfigMap = `apiVersion: v1
kind: ConfigMap
metadata: {name: further, namespace: capa-system}
data: {value: "1"}
`

func TestRealProviders_InstallUpgradeRevertUninstall(t *testing.T) {
	h := newHarness(t)
	all, err := fixture.Providers(t.Context(), t.TempDir())
	h.must(err)
	providers := slices.DeleteFunc(all, func(p fixture.Provider) bool { return !slices.Contains(used, p.Name) })
	h.realRelease(providers, "")
	p := h.start("4.22.0")
	h.settled("4.22.0-1")
	h.owned("4.22.0-1")
	first := h.content()
	h.quiet()

	h.realRelease(providers, furtherConfigMap)
	h.settled("4.22.0-2")
	h.owned("4.22.0-2")
	if added := len(h.content()) - len(first); added != 1 {
		t.Errorf("the upgrade adds %d objects, want one", added)
	}

	second := h.content()
	h.must(h.Delete(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "further"}}))
	h.spoil("ClusterRole", "capa-manager-role", `{"rules": []}`)
	h.spoil("Deployment", "capi-controller-manager", `{"spec": {"replicas": 0}}`)
	h.spoil("CustomResourceDefinition", "awsclusters.infrastructure.cluster.x-k8s.io", `{"spec": {"names": {"shortNames": ["spoilt"]}}}`)
	h.eventually("all changes are reverted", func() error { return notRight(second, h.content()) })
	h.settled("4.22.0-2")
	h.quiet()

	precious := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "AWSManagedCluster",
		"metadata": map[string]any{"name": "precious", "namespace": namespace},
	}}
	h.must(h.Create(t.Context(), precious))
	cluster := &v1alpha1.ClusterAPI{}
	cluster.Name = v1alpha1.ClusterAPIName
	h.must(h.Delete(t.Context(), cluster))
	h.within(2*patience, "all objects are uninstalled", h.remaining)
	h.must(h.Get(t.Context(), client.ObjectKeyFromObject(precious), precious))
	crds := &unstructured.UnstructuredList{}
	crds.SetGroupVersionKind(object.CRDVersion)
	h.must(h.List(t.Context(), crds, client.MatchingLabels{"cluster.x-k8s.io/provider": "infrastructure-aws"}))
	if len(crds.Items) != 1 || crds.Items[0].GetName() != "awsmanagedclusters.infrastructure.cluster.x-k8s.io" {
		t.Errorf("%d CRDs of the AWS provider remain, want only the one with an instance", len(crds.Items))
	}
	h.eventually("the log names the retained CRD", func() error {
		if !p.logged("Retained CRD") {
			return errors.New("not in the log")
		}
		return nil
	})
	h.must(h.Delete(t.Context(), precious))
	for i := range crds.Items {
		h.must(h.Delete(context.Background(), &crds.Items[i]))
	}
}

// notRight returns an error with the objects of an earlier state that are missing or differ, except addresses and
// fields of other owners.
func notRight(before, now map[string]any) error {
	var wrong []string
	for name, object := range before {
		wanted, _ := json.Marshal(object)
		got, _ := json.Marshal(now[name])
		if string(wanted) != string(got) {
			wrong = append(wrong, name)
		}
	}
	if wrong != nil {
		return fmt.Errorf("missing or changed objects: %s", strings.Join(wrong, ", "))
	}
	return nil
}

// spoil edits an installed object as another actor.
func (h *harness) spoil(kind, name, patch string) {
	h.Helper()
	object := h.installed()[kind+" "+name]
	if object == nil {
		h.Fatalf("%s %s is not installed", kind, name)
	}
	h.must(h.Patch(h.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("external")))
}
