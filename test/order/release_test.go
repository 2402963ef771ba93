// SPDX-License-Identifier: Apache-2.0

package order

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// placeholder is the image of the manifests.
const placeholder = "registry.ci.openshift.org/openshift:test-controllers"

// releases are synthetic releases, and the bundles of their images by reference.
type releases struct {
	bundles map[string]extractor.Bundle
	images  []map[string]string                              // images.json of each release
	objects []map[string]*unstructured.Unstructured          // of each release, by kind and name: manifests, and the live objects after a fresh installation
	of      map[string]map[string]*unstructured.Unstructured // of each image, by reference, kind and name
}

// Fetch implements extractor.Fetcher.
func (r *releases) Fetch(_ context.Context, reference string) ([]extractor.Bundle, error) {
	return []extractor.Bundle{r.bundles[reference]}, nil
}

// add adds a release.
func (r *releases) add(providers ...extractor.Bundle) {
	images, objects := map[string]string{}, map[string]*unstructured.Unstructured{}
	for _, bundle := range providers {
		bundle.Metadata.ContentID = digest.FromBytes(bundle.Manifests)
		bundle.Origin.Image = "registry.example.com/" + bundle.Metadata.ProviderName + "@" + string(bundle.Metadata.ContentID)
		found, err := yamldoc.Objects(bytes.ReplaceAll(bundle.Manifests, []byte(placeholder), []byte(bundle.Origin.Image)))
		if err != nil {
			panic(err) //nolint:forbidigo // a wrong manifest of the test
		}
		of := map[string]*unstructured.Unstructured{}
		for _, object := range found {
			of[keyIn(object)], objects[keyIn(object)] = object, object
		}
		r.bundles[bundle.Origin.Image], r.of[bundle.Origin.Image], images[bundle.Metadata.ProviderName] = bundle, of, bundle.Origin.Image
	}
	r.images, r.objects = append(r.images, images), append(r.objects, objects)
}

// request makes a release the release of images.json.
func (w *world) request(release int) error {
	content, _ := json.Marshal(w.releases.images[release])
	return fixture.ReplaceFile(w.images, string(content))
}

func configMap(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: openshift-cluster-api}\ndata: {%s}\n", name, data)
}

const service = `apiVersion: v1
kind: Service
metadata: {name: webhook, namespace: openshift-cluster-api, annotations: {capi-operator.openshift.io/serving-cert-secret-name: webhook}}
spec: {selector: {app: capa}, ports: [{port: 443}]}
`

// webhooks is the manifest of a configuration whose webhook no request matches.
func webhooks(path string) string {
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: machines, annotations: {capi-operator.openshift.io/inject-cabundle: "true"}}
webhooks:
- name: validation.machines.infrastructure.cluster.x-k8s.io
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  clientConfig: {service: {name: webhook, namespace: openshift-cluster-api, path: %s}}
  rules: [{apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: [v1beta1], operations: [CREATE], resources: [others]}]
`, path)
}

func newReleases() *releases {
	r := &releases{bundles: map[string]extractor.Bundle{}, of: map[string]map[string]*unstructured.Unstructured{}}
	provider := func(of extractor.Metadata, manager, generation string, manifests ...string) extractor.Bundle {
		of.ProviderVersion, of.ImageName = "v1.0.0", placeholder
		manifests = append(manifests, fixture.Deployment(manager, placeholder, generation))
		return extractor.Bundle{Metadata: of, Manifests: []byte(strings.Join(manifests, "---\n"))}
	}
	core := extractor.Metadata{ProviderName: "cluster-api", ProviderType: extractor.Core}
	aws := extractor.Metadata{ProviderName: "cluster-api-provider-aws", ProviderType: extractor.Infrastructure, OCPPlatform: "AWS"}
	scaled := func(b extractor.Bundle) extractor.Bundle { // an autoscaler decides on the replicas
		b.Manifests = []byte(strings.ReplaceAll(string(b.Manifests), "  replicas: 1\n", ""))
		return b
	}
	r.add(provider(core, "capi", "1", configMap("settings", `value: "1", dropped: "yes"`), configMap("old", `value: "1"`)), provider(aws, "capa", "1", fixture.CRD("machines", "Machine", "", "v1beta1"), webhooks("/one"), service))
	r.add(provider(core, "capi", "2", configMap("settings", `value: "2", one: "yes"`), configMap("added", `value: "2"`)), provider(aws, "capa", "2", fixture.CRD("machines", "Machine", fixture.Conversion, "v1beta1", "v1beta2"), webhooks("/two"), service))
	r.add(provider(core, "capi", "1", configMap("settings", `value: "3", other: "yes"`)), scaled(provider(aws, "capa", "3", fixture.CRD("machines", "Machine", "", "v1beta1"), service)))
	r.add(provider(core, "capi", "2", configMap("settings", `value: "1", three: "yes"`)), provider(aws, "capa", "4", configMap("added", `value: "4"`)))
	return r
}
