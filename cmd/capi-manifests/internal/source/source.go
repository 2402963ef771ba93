// SPDX-License-Identifier: Apache-2.0

// Package source reads bundles from the SOURCE argument of a command: a
// directory, an OCI layout, an archive, an image in a registry, a release
// (images.json), transport ConfigMaps or a clusterctl repository.
package source

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/internal/text"
)

// Bundles returns the bundles of a directory, an OCI layout, an archive or an image, and their
// location: the image by digest, or the path. Progress is written to stderr.
func Bundles(ctx context.Context, stderr io.Writer, source string) ([]extractor.Bundle, string, error) {
	switch kind, err := KindOf(source); {
	case err != nil:
		return nil, source, err
	case kind == Layout, kind == Archive:
		image, err := ImageAt(source)
		if err != nil {
			return nil, source, err
		}
		bundles, err := remote.FromImage(ctx, image, extractor.Origin{})
		return requireBundle(bundles, source, err)
	case kind == Directory:
		bundles, err := bundlesInDirectory(source)
		if file := kustomize.FileIn(source); err == nil && len(bundles) == 0 && file != "" {
			err = &InvalidError{fmt.Errorf("no bundle found, but a %s; use \"capi-manifests generate\" to create a bundle", filepath.Base(file))}
		} else if meant := manifestsBelow(source); err == nil && len(bundles) == 0 && meant != "" {
			err = &InvalidError{fmt.Errorf("no bundle found; did you mean the %s?", meant)}
		}
		return requireBundle(bundles, source, err)
	}
	client := NewClient()
	reference, err := Resolve(ctx, client, source)
	if err != nil {
		return nil, source, err
	}
	bundles, err := term.NewProgress(stderr, 1, &remote.Registry{Client: client}).Fetch(ctx, reference)
	return requireBundle(bundles, reference, err)
}

// OnlyBundle returns the bundle of a source for a command that accepts one. Progress is written to stderr.
func OnlyBundle(ctx context.Context, stderr io.Writer, src, command string) (extractor.Bundle, error) {
	bundles, _, err := Bundles(ctx, stderr, src)
	if err != nil {
		return extractor.Bundle{}, err
	}
	if len(bundles) == 1 {
		return bundles[0], nil
	}
	var names []string
	for _, bundle := range bundles {
		names = append(names, bundle.Metadata.ProviderName)
	}
	return extractor.Bundle{}, &InvalidError{fmt.Errorf("%s has %d bundles (%s); %s accepts one", src, len(bundles), text.Join(names), command)}
}

// requireBundle returns an error for a source without a bundle, and adds the source to errors.
func requireBundle(bundles []extractor.Bundle, source string, err error) ([]extractor.Bundle, string, error) {
	if err == nil && len(bundles) == 0 {
		err = &InvalidError{fmt.Errorf("no bundle found: neither %s; \"capi-manifests generate\" writes one from a directory with a kustomization.yaml, and \"capi-manifests pack\" puts it into an image", strings.Join(extractor.Roots(), " nor "))}
	}
	if err != nil {
		err = fmt.Errorf("reading %s: %w", source, err)
	}
	return bundles, source, err
}

// Kind is the kind of a SOURCE argument.
type Kind int

// The kinds of sources.
const (
	Image Kind = iota
	Directory
	Layout
	Archive
)

// KindOf returns the kind of a source. A source that exists, looks like a path or names no registry is a path.
func KindOf(source string) (Kind, error) {
	info, err := os.Stat(source)
	switch {
	case source == "":
		return 0, &ArgumentError{Err: errors.New("SOURCE is empty")} // such as an unset shell variable
	case err == nil && !info.IsDir():
		return Archive, nil
	case err == nil:
		if ocilayout.IsDir(source) {
			return Layout, nil
		}
		return Directory, nil
	case filepath.IsAbs(source), strings.HasPrefix(source, "."), hasFileExtension(source), !errors.Is(err, fs.ErrNotExist):
		return 0, fmt.Errorf("%w: SOURCE is a path of a file or a directory, or an image", err)
	case !contract.NamesRegistry(source):
		return 0, fmt.Errorf("%s not found: neither a path (%w) nor an image: an image begins with a registry, as in quay.io/%[1]s", source, fs.ErrNotExist)
	}
	return Image, nil
}

// ParseImage returns the reference of an image. Its registry must be named, so that a mistyped path is never looked up in one.
func ParseImage(image string) (name.Reference, error) {
	ref, err := name.ParseReference(image)
	if scheme, rest, found := strings.Cut(image, "://"); found {
		err = fmt.Errorf("want an image without %s://, as in %s", scheme, rest)
	} else if err == nil && !contract.NamesRegistry(image) {
		err = fmt.Errorf("the registry is missing, as in quay.io/%s", image)
	}
	return ref, err
}

// hasFileExtension reports whether a name ends like the name of a file with manifests or of an archive. No registry is
// asked for the image with such a name.
func hasFileExtension(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json", ".tar", ".tgz", ".gz"}, filepath.Ext(name))
}

// bundlesInDirectory returns the bundles in the directory layouts of an image, the bundle in the directory of a profile, or
// the bundles of transport ConfigMaps.
func bundlesInDirectory(dir string) ([]extractor.Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := readFiles(root.FS(), dir)
	if err != nil {
		return nil, err
	}
	bundles, err := files.Bundles(extractor.Origin{})
	if err == nil && len(bundles) == 0 {
		return bundlesOfConfigMaps(dir)
	}
	return bundles, err
}

// readFiles reads the files of bundles in a directory; profiles are named by their
// directories.
func readFiles(fsys fs.FS, dir string) (extractor.Files, error) {
	if !extractor.IsProfile(fsys) {
		return extractor.ReadDir(fsys)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	return extractor.ReadProfile(fsys, filepath.Base(absolute))
}

// ImageAt returns the image of an OCI layout or an archive; for an index, the image
// that the installer would read.
func ImageAt(path string) (v1.Image, error) {
	entry, err := EntryAt(path)
	if err != nil {
		return nil, err
	}
	if index, isIndex := entry.(v1.ImageIndex); isIndex {
		return remote.ImageOf(index, v1.Platform{})
	}
	return entry.(v1.Image), nil
}

// EntryAt returns the only entry of an OCI layout or an archive: a v1.Image or a v1.ImageIndex.
// Archives are tar files of an OCI layout, or as "podman save" and "docker save" write them.
func EntryAt(path string) (mutate.Appendable, error) {
	entry, err := ocilayout.Read(path)
	if err == nil {
		return entry, nil
	}
	if !errors.Is(err, ocilayout.ErrNotLayout) {
		return nil, fmt.Errorf("reading the OCI layout %s: %w", path, err)
	}
	image, err := tarball.ImageFromPath(path, nil)
	if err != nil {
		return nil, &InvalidError{fmt.Errorf("%s: want an image, an OCI layout, a directory with a bundle, or an archive without compression and with a single image, as \"podman save\" or \"docker save\" writes it: %w; \"capi-manifests generate\" creates a bundle from manifests, and --images-json names a release", path, err)}
	}
	return image, nil
}

// InvalidError reports an invalid input; a retry does not help.
type InvalidError struct{ Err error }

func (e *InvalidError) Error() string { return e.Err.Error() }

func (e *InvalidError) Unwrap() error { return e.Err }

// ArgumentError reports an invalid argument or flag, such as a SOURCE that is neither a path nor an image.
type ArgumentError struct{ Err error }

func (e *ArgumentError) Error() string { return e.Err.Error() }

func (e *ArgumentError) Unwrap() error { return e.Err }

// IsImagesJSON reports whether a source is images.json: a file that begins with a
// JSON object, standard input or a pipe.
func IsImagesJSON(source string) (bool, error) {
	if source == "-" {
		return true, nil
	}
	info, err := os.Stat(source)
	if err != nil || info.IsDir() {
		return false, nil // opening it returns the error
	}
	if !info.Mode().IsRegular() {
		return true, nil // can be read only once
	}
	file, err := os.Open(source)
	if err != nil {
		return false, err
	}
	defer file.Close()
	for reader := bufio.NewReader(file); ; {
		char, _, err := reader.ReadRune()
		if err != nil || !strings.ContainsRune(" \t\r\n\ufeff", char) {
			return char == '{', nil
		}
	}
}

// KustomizationIn returns the kustomization.yaml of a directory; empty if there is none.
func KustomizationIn(source string) string {
	if kind, err := KindOf(source); err != nil || kind != Directory {
		return ""
	}
	return kustomize.FileIn(source)
}

// BundleIn returns the name of the file or directory that makes a directory a
// bundle, or the directory of several; empty if there is none.
func BundleIn(source string) string { return extractor.BundleIn(os.DirFS(source)) }

// FilesOf returns a function that lists the files which may define a field of an
// object that is rendered from src: the strategic merge patches of a kustomize
// directory, the outermost first, and the file of the object; none if the origin of
// the object is unknown. src may also be a YAML file.
func FilesOf(src string) (func(kind, name string) []string, error) {
	if kustomize.IsManifests(src) {
		return func(string, string) []string { return []string{src} }, nil
	}
	origins, err := kustomize.Origins(src)
	if err != nil {
		return nil, err
	}
	patches := patchesIn(src, map[string]bool{})
	return func(kind, name string) []string {
		origin, known := origins[kustomize.ObjectName{Kind: kind, Name: name}]
		if !known {
			return nil
		}
		return append(slices.Clip(patches), filepath.Join(src, origin))
	}, nil
}

// patchesIn returns the patch files of a kustomize directory and of the directories
// that it includes. It skips files that it cannot read, and directories that it has
// already visited.
func patchesIn(dir string, seen map[string]bool) (files []string) {
	content, err := os.ReadFile(kustomize.FileIn(dir))
	var kustomization types.Kustomization
	if err != nil || seen[dir] || yaml.Unmarshal(content, &kustomization) != nil {
		return nil
	}
	seen[dir] = true
	for _, patch := range kustomization.PatchesStrategicMerge { //nolint:staticcheck // providers still use it
		files = append(files, filepath.Join(dir, string(patch)))
	}
	for _, patch := range kustomization.Patches {
		if patch.Path != "" {
			files = append(files, filepath.Join(dir, patch.Path))
		}
	}
	for _, below := range slices.Concat(kustomization.Components, kustomization.Resources, kustomization.Bases) { //nolint:staticcheck // providers still use bases
		files = append(files, patchesIn(filepath.Join(dir, below), seen)...)
	}
	return files
}

// manifestsBelow describes the usual kustomize directory below a directory of a provider's repository, such as
// "config/default" in its root, or the file with components in a directory; empty if there is none.
func manifestsBelow(dir string) string {
	for _, below := range []string{"default", "config/default"} {
		if below = filepath.Join(dir, below); kustomize.FileIn(below) != "" {
			return "kustomize directory " + below
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "*components.yaml")); err == nil && len(files) > 0 {
		return "file " + files[0]
	}
	return ""
}
