// SPDX-License-Identifier: Apache-2.0

package order

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

const (
	namespace   = "openshift-cluster-api"
	placeholder = "registry.ci.openshift.org/openshift:test-controllers"
)

// releases are synthetic releases, and the bundles of their images by reference.
type releases struct {
	bundles map[string]extractor.Bundle
	images  []map[string]string                              // images.json of each release
	objects []map[string]*unstructured.Unstructured          // of each release, by kind and name
	of      map[string]map[string]*unstructured.Unstructured // of each image, by reference, kind and name
}

// Fetch implements extractor.Fetcher.
func (r *releases) Fetch(_ context.Context, reference string) ([]extractor.Bundle, error) {
	bundle, found := r.bundles[reference]
	if !found {
		return nil, fmt.Errorf("no image %s", reference)
	}
	bundle.Origin.Image = reference
	return []extractor.Bundle{bundle}, nil
}

// add adds a release.
func (r *releases) add(providers ...extractor.Bundle) {
	images := map[string]string{}
	for _, bundle := range providers {
		bundle.Metadata.ContentID = digest.FromBytes(bundle.Manifests)
		reference := "registry.example.com/" + bundle.Metadata.ProviderName + "@" + string(bundle.Metadata.ContentID)
		r.bundles[reference], images[bundle.Metadata.ProviderName] = bundle, reference
	}
	objects := map[string]*unstructured.Unstructured{}
	for _, reference := range images {
		r.of[reference] = map[string]*unstructured.Unstructured{}
		for _, manifest := range strings.Split(string(r.bundles[reference].Manifests), "---\n") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(strings.ReplaceAll(manifest, placeholder, reference)), &object.Object); err != nil {
				panic(err) //nolint:forbidigo // a wrong manifest of the test
			}
			r.of[reference][keyIn(object)] = object
		}
		maps.Copy(objects, r.of[reference])
	}
	r.images, r.objects = append(r.images, images), append(r.objects, objects)
}

// have reports whether a release has an object.
func (r *releases) have(key string) bool {
	return slices.ContainsFunc(r.objects, func(of map[string]*unstructured.Unstructured) bool { return of[key] != nil })
}

func provider(name string, kind extractor.ProviderType, platform string, manifests ...string) extractor.Bundle {
	return extractor.Bundle{
		Metadata:  extractor.Metadata{ProviderName: name, ProviderType: kind, ProviderVersion: "v1.0.0", OCPPlatform: platform, ImageName: placeholder},
		Manifests: []byte(strings.Join(manifests, "---\n")),
	}
}

// request makes a release the release of images.json.
func (w *world) request(release int) error {
	content, err := json.Marshal(w.releases.images[release])
	if err != nil {
		return err
	}
	return fixture.ReplaceFile(w.images, string(content))
}

func configMap(name, data string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {%s}\n", name, namespace, data)
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
	core := func(generation string, manifests ...string) extractor.Bundle {
		return provider("cluster-api", extractor.Core, "", append(manifests, fixture.Deployment("capi", placeholder, generation))...)
	}
	aws := func(generation string, manifests ...string) extractor.Bundle {
		return provider("cluster-api-provider-aws", extractor.Infrastructure, "AWS", append(manifests, fixture.Deployment("capa", placeholder, generation))...)
	}
	scaled := func(b extractor.Bundle) extractor.Bundle { // an autoscaler decides on the replicas
		b.Manifests = []byte(strings.ReplaceAll(string(b.Manifests), "  replicas: 1\n", ""))
		return b
	}
	r.add(core("1", configMap("settings", `value: "1", dropped: "yes"`), configMap("old", "")), aws("1", fixture.CRD("machines", "Machine", "", "v1beta1"), webhooks("/one"), service))
	r.add(core("2", configMap("settings", `value: "2", one: "yes"`), configMap("added", `value: "2"`)), aws("2", fixture.CRD("machines", "Machine", fixture.Conversion, "v1beta1", "v1beta2"), webhooks("/two"), service))
	r.add(core("1", configMap("settings", `value: "3", other: "yes"`)), scaled(aws("3", fixture.CRD("machines", "Machine", "", "v1beta1"), service)))
	r.add(core("2", configMap("settings", `value: "1", three: "yes"`)), aws("4", configMap("added", `value: "4"`)))
	return r
}
