// SPDX-License-Identifier: Apache-2.0

package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
)

// settings is the registry configuration of the user's container tools; see containers-certs.d(5).
func settings(context.Context) (fetch.Settings, error) {
	dirs := fetch.CertsDirs
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(dirs[:len(dirs):len(dirs)], filepath.Join(home, ".config", "containers", "certs.d"))
	}
	return fetch.Settings{CertsDirs: dirs}, nil
}

// NewClient returns a client with the registry configuration of the user's container tools.
func NewClient() *fetch.Client { return &fetch.Client{Settings: settings} }

// Registry returns a registry that reads bundles as podman, skopeo and oc do: from
// the user's mirrors, with the user's credentials.
func Registry() *remote.Registry { return &remote.Registry{Client: NewClient()} }

// WithAdvice adds the next step to an error of a registry that rejects the credentials.
func WithAdvice(err error, repository name.Repository) error {
	if status := fetch.StatusOf(err); status != http.StatusUnauthorized && status != http.StatusForbidden {
		return err
	}
	return fmt.Errorf("%w; run \"podman login %s\" as a user with access to %s", err, repository.RegistryStr(), repository.RepositoryStr())
}

// Resolve returns a reference by digest; it looks up a tag in the sources of the
// image. The name of the image does not change.
func Resolve(ctx context.Context, client *fetch.Client, reference string) (string, error) {
	ref, err := ParseImage(reference)
	if err != nil {
		return "", &ArgumentError{Err: fmt.Errorf("invalid SOURCE %q: neither a path nor an image: %w", reference, err)}
	}
	tag, byTag := ref.(name.Tag)
	if !byTag {
		return reference, nil
	}
	image, err := client.OpenTag(ctx, tag)
	if err != nil {
		return "", fmt.Errorf("resolving tag %s: %w", tag.Name(), err)
	}
	defer image.Close()
	raw, err := image.Manifest(ctx, "manifest", v1.Descriptor{}, MaxManifest)
	if err != nil {
		return "", fmt.Errorf("resolving tag %s: %w", tag.Name(), WithAdvice(err, tag.Context()))
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	return tag.Context().Digest(digest.String()).Name(), err
}

// Target returns a reference and options for go-containerregistry, to read and write the registry of an image, never a mirror. The
// error is a *fetch.BlockedError if the registry is blocked.
func Target(ctx context.Context, image name.Reference) (name.Reference, []ggcr.Option, error) {
	configuration, err := settings(ctx)
	if err != nil {
		return nil, nil, err
	}
	target, err := configuration.Target(ctx, image)
	if err != nil {
		return nil, nil, err
	}
	auth := authn.FromConfig(authn.AuthConfig{Username: target.Login.Username, Password: target.Login.Password, IdentityToken: target.Login.IdentityToken})
	options := []ggcr.Option{ggcr.WithContext(ctx), ggcr.WithUserAgent("capi-manifests"), ggcr.WithTransport(target.Transport), ggcr.WithAuth(auth)}
	if target.Insecure {
		image, err = name.ParseReference(image.Name(), name.Insecure)
	}
	return image, options, err
}

// fromSources calls read with the sources of an image in their order, until it returns no error.
func fromSources(ctx context.Context, client *fetch.Client, image name.Digest, read func(at name.Reference, options []ggcr.Option) error) error {
	opened, err := client.Open(ctx, image.Name())
	if err != nil {
		return err
	}
	defer opened.Close()
	var errs []error
	for _, s := range opened.Sources() {
		at, err := name.ParseReference(s.Reference.String())
		if err != nil {
			return err
		}
		at, options, err := Target(ctx, at)
		if err == nil {
			err = read(at, options)
		}
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", at, WithAdvice(err, at.Context())))
	}
	return errors.Join(errs...)
}

// Pull returns the image or the index of a reference by digest, from the first of its sources that has it. Its layers are read when
// they are needed, until ctx ends.
func Pull(ctx context.Context, client *fetch.Client, reference string) (found mutate.Appendable, err error) {
	ref, err := name.NewDigest(reference)
	if err != nil {
		return nil, err
	}
	err = fromSources(ctx, client, ref, func(at name.Reference, options []ggcr.Option) error {
		read, err := ggcr.Get(at, options...)
		switch {
		case err != nil:
			return err
		case read.MediaType.IsIndex():
			found, err = read.ImageIndex()
		default:
			found, err = read.Image()
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("pulling %s: %w", ref.Name(), err)
	}
	return found, nil
}

// Referrers returns the manifests that refer to one, such as signatures and attestations.
func Referrers(ctx context.Context, subject name.Digest) (refs []name.Reference, err error) {
	err = fromSources(ctx, NewClient(), subject, func(at name.Reference, options []ggcr.Option) error {
		index, err := ggcr.Referrers(at.Context().Digest(subject.DigestStr()), options...)
		if err != nil {
			return err
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			return err
		}
		for _, entry := range manifest.Manifests {
			refs = append(refs, subject.Context().Digest(entry.Digest.String()))
		}
		return nil
	})
	return refs, err
}

// MaxManifest is the maximum size of a manifest in bytes; as in remote.Limits.
const MaxManifest = 4 << 20
