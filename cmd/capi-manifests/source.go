// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/pull"
)

// generateError finds out whose fault it is: a file that cannot be read is not an invalid provider.
func generateError(err error) error {
	if err == nil || isA[*build.OptionsError](err) || isA[*fs.PathError](err) {
		return err
	}
	return &invalidError{err}
}

// bundlesAt returns the bundles of a directory, an OCI layout, an archive or an image, and where they
// were found: the image by digest, or the path. How it goes is told on stderr.
func bundlesAt(ctx context.Context, stderr io.Writer, source string) ([]extractor.Bundle, string, error) {
	switch kind, err := kindOf(source); {
	case err != nil:
		return nil, source, err
	case kind == isLayout, kind == isArchive:
		image, err := imageAt(kind, source)
		if err != nil {
			return nil, source, err
		}
		bundles, err := remote.FromImage(ctx, image, extractor.Origin{})
		return found(bundles, source, err)
	case kind == isDirectory:
		bundles, err := bundlesOfDirectory(source)
		if file := build.KustomizationIn(source); err == nil && len(bundles) == 0 && file != "" {
			err = &invalidError{fmt.Errorf("it has a %s, of which \"capi-manifests generate\" makes a bundle", filepath.Base(file))}
		}
		return found(bundles, source, err)
	}
	reference, err := resolve(ctx, source)
	if err != nil {
		return nil, source, err
	}
	progress := newProgress(stderr, 1)
	bundles, err := progress.fetch(ctx, puller(), reference)
	progress.end()
	return found(bundles, reference, err)
}

// found refuses a source without a bundle, and says in an error which source it was.
func found(bundles []extractor.Bundle, source string, err error) ([]extractor.Bundle, string, error) {
	if err == nil && len(bundles) == 0 {
		err = &invalidError{fmt.Errorf("there is no bundle: neither %s", strings.Join(extractor.Roots(), " nor "))}
	}
	if err != nil {
		err = fmt.Errorf("reading %s: %w", source, err)
	}
	return bundles, source, err
}

// puller gets bundles as podman, skopeo and oc would: from the user's mirrors, with the user's credentials.
func puller() *remote.Registry {
	access := sync.OnceValues(userAccess)
	return &remote.Registry{Puller: &pull.Puller{Access: func(context.Context) (pull.Access, error) { return access() }}}
}

// sourceKind is what an argument names.
type sourceKind int

const (
	isImage sourceKind = iota
	isDirectory
	isLayout
	isArchive
)

// kindOf takes what exists for a path, and what looks like a path for one too.
func kindOf(source string) (sourceKind, error) {
	info, err := os.Stat(source)
	switch {
	case source == "":
		return 0, &usageError{"capi-manifests", errors.New("SOURCE is an empty text")} // an unset variable of a shell
	case err == nil && !info.IsDir():
		return isArchive, nil
	case err == nil:
		if _, err := os.Stat(filepath.Join(source, "oci-layout")); err == nil {
			return isLayout, nil
		}
		return isDirectory, nil
	case filepath.IsAbs(source), strings.HasPrefix(source, "."), !errors.Is(err, fs.ErrNotExist):
		return 0, err
	case !strings.Contains(source, "/"):
		// An image of Docker Hub would be meant by none of our users.
		return 0, fmt.Errorf("there is no directory %s; an image is named with its registry, as in quay.io/%[1]s", source)
	}
	return isImage, nil
}

// bundlesOfDirectory are those in the layouts of an image, or else those of transport ConfigMaps.
func bundlesOfDirectory(dir string) ([]extractor.Bundle, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	files, err := extractor.ReadDir(root.FS())
	if err != nil {
		return nil, err
	}
	bundles, err := files.Bundles(extractor.Origin{})
	if err == nil && len(bundles) == 0 {
		return bundlesOfConfigMaps(dir)
	}
	return bundles, err
}

// imageAt returns the only image of an OCI layout or an archive; of an index the one that the installer would read.
func imageAt(kind sourceKind, path string) (v1.Image, error) {
	entry, err := entryAt(kind, path)
	if err != nil {
		return nil, err
	}
	if index, is := entry.(v1.ImageIndex); is {
		return remote.ImageOf(index, v1.Platform{})
	}
	return entry.(v1.Image), nil
}

// entryAt returns the only entry of an OCI layout or an archive: a v1.Image or a v1.ImageIndex.
func entryAt(kind sourceKind, path string) (mutate.Appendable, error) {
	if kind == isLayout {
		return entryOfLayout(path)
	}
	archive, err := openOCIArchive(path)
	if err == nil {
		entry, err := archive.entry()
		if err != nil {
			err = fmt.Errorf("reading the OCI archive %s: %w", path, err)
		}
		return entry, err
	}
	if !errors.Is(err, errNoOCIArchive) {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	image, err := tarball.ImageFromPath(path, nil)
	if release, _ := isRelease(path); err != nil && release {
		return nil, &invalidError{fmt.Errorf("%s is JSON and no archive; where a release is taken, it is given as --images-json %[1]s", path)}
	}
	if err != nil {
		return nil, &invalidError{fmt.Errorf("%s is a file and no archive with a single image, as \"podman save\" or \"docker save\" writes one: %w", path, err)}
	}
	return image, nil
}

// entryOfLayout returns the only entry of an OCI layout.
func entryOfLayout(dir string) (mutate.Appendable, error) {
	failed := func(err error) (mutate.Appendable, error) {
		return nil, fmt.Errorf("reading the OCI layout %s: %w", dir, err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return failed(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return failed(err)
	}
	only, err := onlyEntry(manifest)
	if err != nil {
		return failed(err)
	}
	var entry mutate.Appendable
	if only.MediaType.IsIndex() {
		entry, err = index.ImageIndex(only.Digest)
	} else {
		entry, err = index.Image(only.Digest)
	}
	if err != nil {
		return failed(err)
	}
	return entry, nil
}

// resolve returns a reference by digest; a tag is looked up
// in its sources. The name stays the image's own.
func resolve(ctx context.Context, reference string) (string, error) {
	ref, err := name.ParseReference(reference)
	if err != nil {
		return "", &usageError{"capi-manifests", fmt.Errorf("%q is neither a directory nor an image: %w", reference, err)}
	}
	if _, byDigest := ref.(name.Digest); byDigest {
		return reference, nil
	}
	access, err := userAccess()
	if err != nil {
		return "", fmt.Errorf("finding out how to reach registries: %w", err)
	}
	defer access.Network.Close()
	sources, err := access.Mirrors.TagSources(ref.(name.Tag))
	if err != nil {
		return "", fmt.Errorf("looking up the tag %s: %w", ref.Name(), err)
	}
	descriptor, err := firstOf(ctx, access, sources, ggcr.Get)
	if err != nil {
		return "", fmt.Errorf("looking up the tag %s: %w", ref.Name(), err)
	}
	return ref.Context().Digest(descriptor.Digest.String()).Name(), nil
}
