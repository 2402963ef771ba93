// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// release is the part of an OpenShift release that concerns Cluster API.
type release struct {
	version    string
	imagesJSON string
	images     map[string]string
}

// The changes of the second release: its AWS provider has one object more and one less, and the Deployment runs the new
// image.
const (
	changedProvider = "cluster-api-provider-aws"
	addedObject     = "NetworkPolicy openshift-cluster-api/capa-webhook"
	removedObject   = "Service openshift-cluster-api/capa-metrics-service"
	changedObject   = "Deployment openshift-cluster-api/capa-controller-manager"
)

// overlay changes the AWS provider of the first release into the one of the second.
const overlay = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources:
- %s
- networkpolicy.yaml
patches:
- target: {kind: Service, name: capa-metrics-service}
  patch: |
    $patch: delete
    apiVersion: v1
    kind: Service
    metadata: {name: capa-metrics-service}
`

const networkPolicy = `apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: capa-webhook, namespace: capa-system}
spec:
  podSelector: {matchLabels: {control-plane: capa-controller-manager}}
  policyTypes: [Ingress]
  ingress:
  - ports:
    - {port: webhook-server}
`

// badPatch makes the API server reject the AWS provider as an update: the selector
// of a Deployment is immutable.
const badPatch = `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [%s]
patches:
- target: {kind: Deployment, name: capa-controller-manager}
  patch: |
    - {op: add, path: /spec/selector/matchLabels/release, value: bad}
    - {op: add, path: /spec/template/metadata/labels/release, value: bad}
`

// badRelease is a release with an AWS provider that the API server rejects.
func (d *demo) badRelease(ctx context.Context, good release, providers []fixture.Provider) (release, error) {
	images := maps.Clone(good.images)
	for _, provider := range providers {
		if provider.Name != changedProvider {
			continue
		}
		dir := filepath.Join(d.dir, "providers", "bad")
		base, err := filepath.Rel(dir, provider.Kustomization)
		if err != nil {
			return release{}, err
		}
		if err := writeFiles(dir, map[string]string{"kustomization.yaml": fmt.Sprintf(badPatch, base)}); err != nil {
			return release{}, err
		}
		provider.Kustomization = dir
		if images[provider.Name], err = d.publish(ctx, provider, "4.22.2"); err != nil {
			return release{}, err
		}
	}
	return d.write("4.22.2", images)
}

// firstRelease builds and pushes the images of the first release: the real providers, one for another platform, and an
// image without a bundle.
func (d *demo) firstRelease(ctx context.Context) (release, []fixture.Provider, error) {
	d.screen.step("Making release 4.22.0: images of real providers")
	providers, err := fixture.Providers(ctx, filepath.Join(d.dir, "providers"))
	if err != nil {
		return release{}, nil, err
	}
	azure, err := d.azure()
	if err != nil {
		return release{}, nil, err
	}
	images := map[string]string{}
	for _, provider := range append(providers, azure) {
		if images[provider.Name], err = d.publish(ctx, provider, "4.22.0"); err != nil {
			return release{}, nil, err
		}
	}
	if images["machine-config-operator"], err = d.pushOther(); err != nil {
		return release{}, nil, err
	}
	made, err := d.write("4.22.0", images)
	if err != nil {
		return release{}, nil, err
	}
	return made, providers, d.plan(ctx, made)
}

// secondRelease is the first release with another image of the AWS provider.
func (d *demo) secondRelease(ctx context.Context, first release, providers []fixture.Provider) (release, error) {
	d.screen.step("Making release 4.22.1: one changed image, with one object added and one removed")
	images := maps.Clone(first.images)
	for _, provider := range providers {
		if provider.Name != changedProvider {
			continue
		}
		changed, err := d.overlaid(provider)
		if err != nil {
			return release{}, err
		}
		if images[provider.Name], err = d.publish(ctx, changed, "4.22.1"); err != nil {
			return release{}, err
		}
	}
	made, err := d.write("4.22.1", images)
	if err != nil {
		return release{}, err
	}
	return made, d.plan(ctx, made)
}

// azure is a small provider for another platform than the cluster's.
func (d *demo) azure() (fixture.Provider, error) {
	synthetic := fixture.Synthetic{Name: "cluster-api-provider-azure", Platform: "Azure"}
	metadata := synthetic.Bundle().Metadata
	provider := fixture.Provider{
		Name: metadata.ProviderName, Type: metadata.ProviderType, Version: metadata.ProviderVersion,
		Platform: metadata.OCPPlatform, ImageName: metadata.ImageName, Kustomization: filepath.Join(d.dir, "azure"),
	}
	return provider, writeFiles(provider.Kustomization, map[string]string{
		"kustomization.yaml": "resources: [provider.yaml]\n",
		"provider.yaml":      string(synthetic.Manifests()),
	})
}

// overlaid returns a provider with the overlay applied to its directory.
func (d *demo) overlaid(provider fixture.Provider) (fixture.Provider, error) {
	dir := filepath.Join(d.dir, "providers", "overlay")
	base, err := filepath.Rel(dir, provider.Kustomization)
	if err != nil {
		return provider, err
	}
	provider.Kustomization = dir
	return provider, writeFiles(dir, map[string]string{
		"kustomization.yaml": fmt.Sprintf(overlay, base),
		"networkpolicy.yaml": networkPolicy,
	})
}

// publish generates the provider's manifests, packs them into an image, pushes it
// and returns its reference by digest.
func (d *demo) publish(ctx context.Context, provider fixture.Provider, tag string) (string, error) {
	out := filepath.Join(d.dir, "bundles", provider.Name+"-"+tag)
	_, err := d.tool(ctx, "generate", provider.Kustomization, "--output-dir", out,
		"--provider-name", provider.Name, "--provider-type", string(provider.Type), "--provider-version", provider.Version,
		"--platform", provider.Platform, "--image-name", provider.ImageName)
	if err != nil {
		return "", err
	}
	reference, err := d.tool(ctx, "pack", out, "--push", fmt.Sprintf("%s/openshift/%s:%s", d.Registry.Host(), provider.Name, tag))
	if err != nil {
		return "", err
	}
	d.screen.line("%-42s %s  %s", provider.Name+" "+provider.Version, short(reference), provider.Platform)
	return reference, nil
}

// pushOther pushes an image without a bundle.
func (d *demo) pushOther() (string, error) {
	image, err := random.Image(64<<10, 3)
	if err != nil {
		return "", err
	}
	reference, err := d.Registry.Push("openshift/machine-config-operator", image)
	if err != nil {
		return "", err
	}
	d.screen.line("%-42s %s  (no provider)", "machine-config-operator", short(reference))
	return reference, nil
}

// short returns the first characters of a reference's digest.
func short(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest[:min(len(digest), 19)]
}

// write writes images.json.
func (d *demo) write(version string, images map[string]string) (release, error) {
	d.ImagesJSON = filepath.Join(d.dir, "release-"+version, "images.json")
	made := release{version: version, images: images, imagesJSON: d.ImagesJSON}
	return made, errors.Join(os.MkdirAll(filepath.Dir(d.ImagesJSON), 0o755), d.WriteImages(images))
}

// plan shows the providers that the release installs on AWS.
func (d *demo) plan(ctx context.Context, made release) error {
	out, err := d.tool(ctx, "plan", "--images-json", made.imagesJSON, "--platform", "AWS", "--release-version", made.version)
	if err != nil {
		return err
	}
	d.screen.block(fmt.Sprintf("$ capi-manifests plan --images-json images.json --platform AWS --release-version %s", made.version), out)
	return nil
}

func writeFiles(dir string, files map[string]string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}
