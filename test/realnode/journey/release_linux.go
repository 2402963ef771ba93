// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/test/realnode"
)

// release is a release of providers: its version, and its images by key.
type release struct {
	version string
	images  map[string]string
}

// variation changes a provider of a release; empty fields change nothing.
type variation struct {
	key     string // of the provider
	program string // file of another manager
	patch   string // a JSON patch of the manager's Deployment
}

// firstRelease configures capi-manifests for the registry and makes the first release.
func (j *Journey) firstRelease(ctx context.Context) error {
	if err := j.logIn(); err != nil {
		return err
	}
	var err error
	if j.operatorImage, err = j.pushOperator(); err != nil {
		return err
	}
	j.current, err = j.makeRelease(ctx, "1.0.0")
	return err
}

// logIn writes the configuration of registries that podman, skopeo, capi-manifests and the operator use.
func (j *Journey) logIn() error {
	host := j.node.Registry.Host()
	user, password := j.node.Credentials()
	login := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	for name, content := range map[string]string{
		"registries.conf":             fmt.Sprintf("[[registry]]\nlocation = %q\n[[registry.mirror]]\nlocation = %q\n", realnode.PublicRegistry, host),
		"auth.json":                   fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, host, login),
		"certs.d/" + host + "/ca.crt": string(j.node.CA()),
	} {
		path := filepath.Join(j.path("home/.config/containers"), name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pushOperator pushes the image of make image.
func (j *Journey) pushOperator() (string, error) {
	image, err := ocilayout.Read(j.path(imageFolder))
	if err != nil {
		return "", fmt.Errorf("reading the operator's image: %w", err)
	}
	return j.node.Push("capi-installer", image.(remote.Taggable)) // an image or an index
}

// makeRelease generates and packs all providers with the documented commands.
func (j *Journey) makeRelease(ctx context.Context, version string, variations ...variation) (release, error) {
	r := release{version: version, images: map[string]string{}}
	for _, p := range providers {
		v := variation{key: p.key}
		if i := slices.IndexFunc(variations, func(v variation) bool { return v.key == p.key }); i >= 0 {
			v = variations[i]
		}
		var err error
		if r.images[p.key], err = j.makeProvider(ctx, p, version, v); err != nil {
			return release{}, fmt.Errorf("making %s of release %s: %w", p.key, version, err)
		}
	}
	j.Report("release %s: %d provider images in %s", version, len(r.images), j.node.Registry.Host())
	return r, nil
}

func (j *Journey) makeProvider(ctx context.Context, p provider, version string, v variation) (string, error) {
	base, err := j.managerImage(cmp.Or(v.program, filepath.Join(managersFolder, p.key)), version)
	if err != nil {
		return "", err
	}
	if _, err := j.node.Registry.PushTag("bases/"+p.key, version, base); err != nil {
		return "", err
	}
	kustomization := p.kustomization
	if v.patch != "" {
		if kustomization, err = j.overlay(p, version, v.patch); err != nil {
			return "", err
		}
	}
	bundle := filepath.Join("bundles", version, p.key)
	arguments := []string{"generate", kustomization, "--output-dir", bundle, "--profile", "kubernetes",
		"--provider-name", p.name, "--provider-type", p.kind, "--provider-version", "v" + version, "--image-name", p.placeholder}
	if p.platform != "" {
		arguments = append(arguments, "--platform", p.platform)
	}
	for image, replacement := range p.images {
		arguments = append(arguments, "--image", image+"="+replacement)
	}
	if _, err := j.tool(ctx, arguments...); err != nil {
		return "", err
	}
	host := j.node.Registry.Host()
	if _, err := j.tool(ctx, "pack", bundle, "--base", host+"/bases/"+p.key+":"+version, "--push", host+"/"+p.key+":"+version); err != nil {
		return "", err
	}
	// The reference by digest names the public registry; the node's registry is its mirror.
	out, err := j.tool(ctx, "images", p.key+"="+host+"/"+p.key+":"+version)
	if err != nil {
		return "", err
	}
	var images map[string]string
	if err := json.Unmarshal([]byte(out), &images); err != nil {
		return "", fmt.Errorf("reading the output of capi-manifests images: %w", err)
	}
	return strings.Replace(images[p.key], host, realnode.PublicRegistry, 1), nil
}

// overlay writes a kustomize directory that patches the manager's Deployment, and returns its path.
func (j *Journey) overlay(p provider, version, patch string) (string, error) {
	folder := filepath.Join("overlays", version, p.key)
	base, err := filepath.Rel(folder, p.kustomization)
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("resources: [%s]\npatches:\n- target: {kind: Deployment}\n  patch: '%s'\n", base, patch)
	if err := os.MkdirAll(j.path(folder), 0o700); err != nil {
		return "", err
	}
	return folder, os.WriteFile(filepath.Join(j.path(folder), "kustomization.yaml"), []byte(text), 0o600)
}

// managerImage returns the image of a manager. It differs between versions.
func (j *Journey) managerImage(program, version string) (v1.Image, error) {
	image, err := realnode.ProgramImage(j.path(program), "/manager")
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.Config.Labels = map[string]string{"org.opencontainers.image.version": version}
	return mutate.ConfigFile(image, config)
}
