// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	ggcrtransport "github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/signature"
)

// passphraseVariable is the variable from which cosign reads the passphrase of a key.
const passphraseVariable = "COSIGN_PASSWORD"

// signer signs images in registries.
type signer struct {
	keyFile, passphraseFile, identity string
}

// register adds the flags; key is the name of the one for the key.
func (s *signer) register(set *pflag.FlagSet, key string) {
	set.StringVar(&s.keyFile, key, "", "private key `file` to sign with, as of \"cosign generate-key-pair\" or \"skopeo generate-sigstore-key\", or in PEM")
	set.StringVar(&s.passphraseFile, "passphrase-file", "", "`file` with the passphrase of an encrypted key (default the variable "+passphraseVariable+")")
	set.StringVar(&s.identity, "sign-identity", "", "`name` of the image that the signature states, such as quay.io/me/capa:v2.10.0 (default the name of the signed image)")
}

// key reads the private key. Errors show neither the key nor the passphrase.
func (s *signer) key() (*signature.Key, error) {
	data, err := os.ReadFile(s.keyFile)
	if err != nil {
		return nil, &usageError{fmt.Errorf("reading the private key: %w", err)}
	}
	passphrase := []byte(os.Getenv(passphraseVariable))
	if s.passphraseFile != "" {
		if passphrase, err = os.ReadFile(s.passphraseFile); err != nil {
			return nil, &usageError{fmt.Errorf("reading the passphrase: %w", err)}
		}
		passphrase = bytes.TrimRight(passphrase, "\r\n")
	}
	key, err := signature.ParseKey(data, passphrase)
	if errors.Is(err, signature.ErrPassphrase) && len(passphrase) == 0 {
		err = errors.New("the private key is encrypted: set --passphrase-file or the variable " + passphraseVariable)
	}
	if err != nil {
		return nil, &usageError{fmt.Errorf("reading %s: %w", s.keyFile, err)}
	}
	return key, nil
}

// sign signs an image or an index, with all its images, in the registry of a reference, and returns the tags of the signatures.
func (s *signer) sign(ctx context.Context, key *signature.Key, image name.Reference, digests []digest.Digest) ([]string, error) {
	access, err := source.RegistrySettings()
	if err != nil {
		return nil, err
	}
	defer access.Transport.Close()
	identity := s.identity
	if identity == "" {
		identity = strings.Replace(image.Name(), name.DefaultRegistry+"/", "docker.io/", 1)
	}
	var tags []string
	for _, manifest := range digests {
		tag := image.Context().Tag(signature.AttachmentTag(manifest))
		at, err := access.Mirrors.Target(tag)
		if err != nil {
			return tags, err
		}
		if err := attach(key, tag, identity, manifest, source.RegistryOptions(ctx, access, at)); err != nil {
			return tags, fmt.Errorf("signing %s: %w", image.Context().Digest(manifest.String()).Name(), source.WithAdvice(err, tag.Context()))
		}
		tags = append(tags, tag.Name())
	}
	return tags, nil
}

// attach adds a signature to the attachment at a tag.
func attach(key *signature.Key, tag name.Tag, identity string, manifest digest.Digest, options []ggcr.Option) error {
	before, err := ggcr.Image(tag, options...)
	if failed, ok := errors.AsType[*ggcrtransport.Error](err); ok && failed.StatusCode == http.StatusNotFound {
		before, err = nil, nil
	}
	if err != nil {
		return fmt.Errorf("reading the present signatures: %w", err)
	}
	attachment, err := key.Attach(before, identity, manifest)
	if err != nil || attachment == before {
		return err
	}
	return ggcr.Write(tag, attachment, options...)
}

// digestsOf returns the digest of an image, or those of an index and of its images.
func digestsOf(image mutate.Appendable) ([]digest.Digest, error) {
	own, err := image.Digest()
	if err != nil {
		return nil, err
	}
	digests := []digest.Digest{digest.Digest(own.String())}
	index, is := image.(v1.ImageIndex)
	if !is {
		return digests, nil
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, fmt.Errorf("reading the index: %w", err)
	}
	for _, entry := range manifest.Manifests {
		digests = append(digests, digest.Digest(entry.Digest.String()))
	}
	return digests, nil
}
