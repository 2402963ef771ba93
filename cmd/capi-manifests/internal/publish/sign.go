// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	ggcrtransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/signature"
)

// Sign signs manifests, given by digest, in the registry of a reference, and
// returns the tags of the signatures. identity is the image name that the
// signatures state; empty means the reference.
func Sign(ctx context.Context, key *signature.Key, image name.Reference, identity string, digests []digest.Digest) ([]string, error) {
	if identity == "" {
		identity = strings.Replace(image.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	}
	var tags []string
	for _, manifest := range digests {
		tag := image.Context().Tag(signature.AttachmentTag(manifest))
		at, options, err := source.Target(ctx, tag)
		if err != nil {
			return tags, err
		}
		if err := attach(key, at, identity, manifest, options); err != nil {
			return tags, fmt.Errorf("signing %s: %w", image.Context().Digest(manifest.String()).Name(), source.WithAdvice(err, tag.Context()))
		}
		tags = append(tags, tag.Name())
	}
	return tags, nil
}

// attach adds a signature to the attachment at a tag.
func attach(key *signature.Key, tag name.Reference, identity string, manifest digest.Digest, options []ggcr.Option) error {
	before, err := ggcr.Image(tag, options...)
	if failed, ok := errors.AsType[*ggcrtransport.Error](err); ok && failed.StatusCode == http.StatusNotFound {
		before, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading existing signatures: %w", err)
	}
	attachment, err := key.Attach(before, identity, manifest)
	if err != nil || attachment == before {
		return err
	}
	return ggcr.Write(tag, attachment, options...)
}
