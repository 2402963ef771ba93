// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

// writeManifests writes a file for each kind of cluster, with the image by digest.
func (b build) writeManifests(image string) error {
	for name, installation := range map[string]struct{ dir, placeholder string }{
		"capi-installer-kubernetes.yaml": {"deploy/kubernetes", "capi-installer"},
		"capi-installer-openshift.yaml":  {"manifests", "registry.ci.openshift.org/openshift"},
	} {
		content, err := b.kustomized(installation.dir, installation.placeholder, image)
		if err != nil {
			return fmt.Errorf("rendering %s: %w", installation.dir, err)
		}
		if err := b.write(name, content); err != nil {
			return err
		}
	}
	return nil
}

// kustomized renders a folder with an image in place of a placeholder, and the version of the release.
func (b build) kustomized(dir, placeholder, image string) ([]byte, error) {
	repository, digest, _ := strings.Cut(image, "@")
	overlay, err := os.MkdirTemp(b.bin, "kustomize-*")
	if err != nil {
		return nil, err
	}
	base, err := filepath.Rel(overlay, filepath.Join(b.absoluteRoot(), dir))
	if err != nil {
		return nil, err
	}
	kustomization := kustomize.Kustomization{
		TypeMeta:  kustomize.TypeMeta{APIVersion: kustomize.KustomizationVersion, Kind: kustomize.KustomizationKind},
		Resources: []string{base}, Images: []kustomize.Image{{Name: placeholder, NewName: repository, Digest: digest}},
	}
	content, err := yaml.Marshal(kustomization)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(overlay, "kustomization.yaml"), content, 0o600); err != nil {
		return nil, err
	}
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), overlay)
	if err != nil {
		return nil, err
	}
	text, err := result.AsYaml()
	if err != nil {
		return nil, err
	}
	if !bytes.Contains(text, []byte(image)) {
		return nil, fmt.Errorf("no container has image %s", placeholder)
	}
	return append(fmt.Appendf(nil, "# capi-installer %s\n", b.version), text...), nil
}

// writeChart writes the Helm chart, with the version of the release and the image.
func (b build) writeChart(image string) error {
	all, root := files{}, filepath.Join(b.root, "deploy/helm")
	version := strings.TrimPrefix(b.version, "v")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch filepath.Base(path) {
		case "Chart.yaml":
			content = bytes.ReplaceAll(content, []byte("0.0.1-snapshot"), []byte(version))
		case "values.yaml":
			content = bytes.Replace(content, []byte(`image: ""`), fmt.Appendf(nil, "image: %s", image), 1)
		}
		all[filepath.ToSlash(name)] = file{content, 0o644}
		return nil
	})
	if err != nil {
		return err
	}
	archive, err := packTar(all, b.created)
	if err != nil {
		return err
	}
	return b.write(b.chartName(), archive)
}

// chartName returns the name of the chart's archive, as Helm wants it.
func (b build) chartName() string {
	return "capi-installer-" + strings.TrimPrefix(b.version, "v") + ".tgz"
}
