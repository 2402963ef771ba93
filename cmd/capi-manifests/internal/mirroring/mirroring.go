// SPDX-License-Identifier: Apache-2.0

// Package mirroring copies images by digest, with their signatures and other attachments, between registries and OCI layouts.
package mirroring

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/publish"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// Reader is where images are copied from. Their names are payload references, also in a mirror.
type Reader interface {
	// Get returns a manifest with everything below it; nil if the store does not have it.
	Get(ctx context.Context, ref name.Reference) (mutate.Appendable, error)
	// Referrers returns the digests of the manifests that refer to one.
	Referrers(ctx context.Context, ref name.Digest) ([]v1.Descriptor, error)
}

// Writer is where images are copied to.
type Writer interface {
	// Put stores a manifest with everything below it. Existing content is not written again.
	Put(ctx context.Context, ref name.Reference, entry mutate.Appendable) error
}

// attachmentSuffixes end the tags of the attachments of cosign.
var attachmentSuffixes = []string{"sig", "att", "sbom"}

// Copy copies an image, all its platforms, and the attachments and referrers of each manifest.
func Copy(ctx context.Context, from Reader, to Writer, image name.Digest) error {
	entry, err := from.Get(ctx, image)
	if err == nil && entry == nil {
		err = errors.New("not found")
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", image, err)
	}
	if err := to.Put(ctx, image, entry); err != nil {
		return fmt.Errorf("writing %s: %w", image, err)
	}
	manifests, err := publish.Digests(entry)
	if err != nil {
		return fmt.Errorf("reading %s: %w", image, err)
	}
	for _, digest := range manifests {
		if err := copyAttachments(ctx, from, to, image.Context(), digest); err != nil {
			return err
		}
	}
	return nil
}

func copyAttachments(ctx context.Context, from Reader, to Writer, repository name.Repository, image digest.Digest) error {
	var refs []name.Reference
	for _, suffix := range attachmentSuffixes {
		refs = append(refs, repository.Tag(image.Algorithm().String()+"-"+image.Encoded()+"."+suffix))
	}
	referrers, err := from.Referrers(ctx, repository.Digest(image.String()))
	if err != nil {
		return fmt.Errorf("listing the referrers of %s@%s: %w", repository, image, err)
	}
	for _, referrer := range referrers {
		refs = append(refs, repository.Digest(referrer.Digest.String()))
	}
	for _, ref := range refs {
		entry, err := from.Get(ctx, ref)
		if err != nil {
			return fmt.Errorf("reading %s: %w", ref, err)
		}
		if entry == nil {
			continue
		}
		if err := to.Put(ctx, ref, entry); err != nil {
			return fmt.Errorf("writing %s: %w", ref, err)
		}
	}
	return nil
}

// Source is the registries of the images, or their mirrors.
type Source struct{ Client *fetch.Client }

// Get implements Reader.
func (s Source) Get(ctx context.Context, ref name.Reference) (mutate.Appendable, error) {
	return source.Find(ctx, s.Client, ref)
}

// Referrers implements Reader.
func (s Source) Referrers(ctx context.Context, ref name.Digest) ([]v1.Descriptor, error) {
	return source.Referrers(ctx, s.Client, ref)
}

// Target is a registry, or a path in one. Below it, images have the paths of their payload references.
type Target struct {
	Client *fetch.Client
	// Prefix is the registry and the path, such as "mirror.example.com:5000/capi".
	Prefix string
}

// repository returns the repository of an image in the mirror.
func (t Target) repository(own name.Repository) string {
	return path.Join(t.Prefix, own.RepositoryStr())
}

// Put implements Writer.
func (t Target) Put(ctx context.Context, ref name.Reference, entry mutate.Appendable) error {
	at := t.repository(ref.Context()) + ":" + ref.Identifier()
	if _, byDigest := ref.(name.Digest); byDigest {
		at = t.repository(ref.Context()) + "@" + ref.Identifier()
	}
	to, err := name.ParseReference(at)
	if err != nil {
		return err
	}
	return publish.Push(ctx, t.Client, to, entry)
}

// Pair is a repository and its mirror.
type Pair struct{ Source, Mirror string }

// Pairs returns the repositories of images and their mirrors, sorted.
func (t Target) Pairs(images []name.Digest) (pairs []Pair) {
	for _, image := range images {
		pairs = append(pairs, Pair{image.Context().Name(), t.repository(image.Context())})
	}
	slices.SortFunc(pairs, func(a, b Pair) int { return strings.Compare(a.Source, b.Source) })
	return slices.Compact(pairs)
}
