// SPDX-License-Identifier: Apache-2.0

// Package mirroring copies images by digest, with their signatures and other attachments, between registries and OCI layouts, with
// the copy of the nodes' library.
package mirroring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/oci/layout"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Place is where images are copied from or to: a directory, a registry, or the registries of the images and their mirrors.
type Place struct {
	// Directory is an OCI layout, whose images have their payload references as names.
	Directory string
	// Prefix is a registry and a path, such as "mirror.example.com:5000/capi". Below it, images have the paths of their payload
	// references.
	Prefix string
}

// Repository returns the repository of an image at a registry.
func (p Place) Repository(own name.Repository) string {
	if p.Prefix == "" {
		return own.Name()
	}
	return path.Join(p.Prefix, own.RepositoryStr())
}

// at returns the reference of an image.
func (p Place) at(ref name.Reference) (types.ImageReference, error) {
	if p.Directory != "" {
		at, err := layout.NewReference(p.Directory, ref.Name())
		return anyManifest{at}, err
	}
	separator := ":"
	if _, byDigest := ref.(name.Digest); byDigest {
		separator = "@"
	}
	at, err := name.ParseReference(p.Repository(ref.Context()) + separator + ref.Identifier())
	if err != nil {
		return nil, err
	}
	named, err := fetch.Named(at)
	if err != nil {
		return nil, err
	}
	return docker.NewReference(named)
}

// anyManifest is an OCI layout that also has manifests of Docker: they keep their digests.
type anyManifest struct{ types.ImageReference }

// NewImageDestination implements types.ImageReference.
func (r anyManifest) NewImageDestination(ctx context.Context, sys *types.SystemContext) (types.ImageDestination, error) {
	to, err := r.ImageReference.NewImageDestination(ctx, sys)
	return anyDestination{to}, err
}

type anyDestination struct{ types.ImageDestination }

func (anyDestination) SupportedManifestMIMETypes() []string { return nil }

func (anyDestination) DesiredLayerCompression() types.LayerCompression { return types.PreserveOriginal }

// attachmentSuffixes end the tags of the attachments of cosign, and of the referrers in registries without their API.
var attachmentSuffixes = []string{".sig", ".att", ".sbom", ""}

// Copy copies an image, all its platforms, and the attachments and referrers of each manifest. Content that exists is not copied again.
func Copy(ctx context.Context, from, to Place, image name.Digest) error {
	raw, err := from.copy(ctx, to, image)
	if err != nil {
		return err
	}
	manifests := []digest.Digest{digest.Digest(image.DigestStr())}
	if kind := manifest.GuessMIMEType(raw); manifest.MIMETypeIsMultiImage(kind) {
		list, err := manifest.ListFromBlob(raw, kind)
		if err != nil {
			return fmt.Errorf("reading %s: %w", image, err)
		}
		manifests = append(manifests, list.Instances()...)
	}
	for _, d := range manifests {
		referrers, err := from.referrers(ctx, image.Context().Digest(d.String()))
		if err != nil {
			return fmt.Errorf("listing the referrers of %s@%s: %w", image.Context(), d, err)
		}
		for _, suffix := range attachmentSuffixes {
			referrers = append(referrers, image.Context().Tag(strings.ReplaceAll(d.String(), ":", "-")+suffix))
		}
		for _, ref := range referrers {
			if _, err := from.copy(ctx, to, ref); err != nil && !isMissing(err) {
				return err
			}
		}
	}
	return nil
}

// copy copies a manifest with everything below it, and returns the manifest.
func (p Place) copy(ctx context.Context, to Place, ref name.Reference) ([]byte, error) {
	policy, err := signature.NewPolicyContext(&signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	if err != nil {
		return nil, err
	}
	defer policy.Destroy() //nolint:errcheck // it frees memory only
	source, err := p.at(ref)
	if err != nil {
		return nil, err
	}
	target, err := to.at(ref)
	if err != nil {
		return nil, err
	}
	raw, err := copy.Image(ctx, policy, target, source, &copy.Options{
		ImageListSelection: copy.CopyAllImages, PreserveDigests: true, RemoveSignatures: true, // the attachments are copied by their tags
		SourceCtx: system(ctx, p.Repository(ref.Context())), DestinationCtx: system(ctx, to.Repository(ref.Context())),
	})
	if err != nil {
		return nil, fmt.Errorf("copying %s: %w", ref, err)
	}
	return raw, nil
}

// system returns the configuration of the user's container tools.
func system(ctx context.Context, repository string) *types.SystemContext {
	sys := &types.SystemContext{AuthFilePath: os.Getenv("REGISTRY_AUTH_FILE")}
	if host, _, _ := strings.Cut(repository, "/"); fetch.PlainHTTP(ctx, host) {
		sys.DockerInsecureSkipTLSVerify = types.OptionalBoolTrue
	}
	return sys
}

func isMissing(err error) bool {
	return fetch.StatusOf(err) == 404 || errors.As(err, new(layout.ImageNotFoundError))
}

// referrers returns the manifests that refer to one by the API of the registry, or in the directory.
func (p Place) referrers(ctx context.Context, subject name.Digest) (refs []name.Reference, err error) {
	if p.Directory == "" {
		return source.Referrers(ctx, subject)
	}
	err = p.each(func(ref name.Reference, of *v1.Descriptor) {
		if of != nil && of.Digest.String() == subject.DigestStr() {
			refs = append(refs, ref)
		}
	})
	return refs, err
}

// Images returns the images in the directory, without their attachments and referrers.
func (p Place) Images() (images []name.Digest, err error) {
	err = p.each(func(ref name.Reference, of *v1.Descriptor) {
		if image, ok := ref.(name.Digest); ok && of == nil { // an attachment has a tag
			images = append(images, image)
		}
	})
	if err == nil && len(images) == 0 {
		err = errors.New("the directory has no images: want an OCI layout that \"capi-manifests mirror --to-dir\" wrote")
	}
	return images, err
}

// each visits the entries of the directory, with the descriptors of their subjects.
func (p Place) each(visit func(ref name.Reference, subject *v1.Descriptor)) error {
	var index imagespec.Index
	if err := readJSON(filepath.Join(p.Directory, "index.json"), &index); err != nil {
		return err
	}
	for _, entry := range index.Manifests {
		called := entry.Annotations[imagespec.AnnotationRefName]
		ref, err := name.ParseReference(called, name.StrictValidation)
		if err != nil {
			return fmt.Errorf("the name %q of manifest %s is not a reference: want an OCI layout that \"capi-manifests mirror --to-dir\" wrote: %w", called, entry.Digest, err)
		}
		if err := entry.Digest.Validate(); err != nil {
			return err
		}
		var content struct{ Subject *v1.Descriptor }
		if err := readJSON(filepath.Join(p.Directory, "blobs", entry.Digest.Algorithm().String(), entry.Digest.Encoded()), &content); err != nil {
			return err
		}
		visit(ref, content.Subject)
	}
	return nil
}

func readJSON(file string, into any) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
