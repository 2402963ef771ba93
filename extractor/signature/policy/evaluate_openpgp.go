// SPDX-License-Identifier: Apache-2.0

//go:build containers_image_openpgp

package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"go.podman.io/image/v5/directory"
	"go.podman.io/image/v5/docker/policyconfiguration"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"

	"github.com/capi-installer/capi-installer/internal/scratch"
)

const supported = true

func validate(data []byte) error {
	_, err := signature.NewPolicyFromBytes(data)
	return err
}

// Evaluate returns nil if the policy accepts an image. The error is a *RejectedError if it does not; with any other
// error, the policy was not evaluated.
func (p *Policy) Evaluate(ctx context.Context, in Image) (err error) {
	named, err := parseReference(in.Reference)
	if err != nil {
		return err
	}
	parsed, err := signature.NewPolicyFromBytes(p.data)
	if err != nil {
		return fmt.Errorf("parsing the signature policy %s: %w", p.name, err)
	}
	evaluation, err := signature.NewPolicyContext(parsed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, evaluation.Destroy()) }()
	dir, err := in.write()
	if err != nil {
		return fmt.Errorf("preparing the evaluation of the signature policy: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	unparsed, err := openDir(ctx, dir, named)
	if err != nil {
		return fmt.Errorf("preparing the evaluation of the signature policy: %w", err)
	}
	allowed, err := evaluation.IsRunningImageAllowed(ctx, unparsed)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if allowed && err == nil {
		return nil
	}
	return &RejectedError{Scope: p.Scope(in.Reference), Reason: fmt.Sprint(err)}
}

// Check returns an error unless the bytes have the format of a signature. Evaluate would reject the image, but name a
// temporary file.
func (s Signature) Check(ctx context.Context) (err error) {
	dir, err := Image{Manifest: []byte("{}"), Signatures: []Signature{s}}.write()
	if err != nil {
		return fmt.Errorf("preparing the check of a signature: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ref, err := directory.NewReference(dir)
	if err != nil {
		return err
	}
	source, err := ref.NewImageSource(ctx, nil)
	if err != nil {
		return err
	}
	if _, err = source.GetSignatures(ctx, nil); err != nil {
		return cmp.Or(errors.Unwrap(err), err) // without the temporary file
	}
	return nil
}

// write writes the image in the format of the dir transport: the only transport without a registry that supports
// sigstore signatures.
func (i Image) write() (dir string, err error) {
	files := map[string][]byte{"manifest.json": i.Manifest}
	for n, s := range i.Signatures {
		files[fmt.Sprintf("signature-%d", n+1)] = s
	}
	return scratch.Dir(i.TempDir, "signatures-", files)
}

// openDir opens the image of a directory under the name of the image in its registry.
func openDir(ctx context.Context, dir string, named reference.Named) (types.UnparsedImage, error) {
	ref, err := directory.NewReference(dir)
	if err != nil {
		return nil, err
	}
	source, err := ref.NewImageSource(ctx, nil)
	if err != nil {
		return nil, err
	}
	// Closing the source of a directory does nothing.
	return image.UnparsedInstanceWithReference(image.UnparsedInstance(source, nil), registryReference{ref, named}), nil
}

// registryReference is a reference to an image in a registry. Only its names are used.
type registryReference struct {
	types.ImageReference
	named reference.Named
}

func (r registryReference) Transport() types.ImageTransport  { return registryTransport{} }
func (r registryReference) DockerReference() reference.Named { return r.named }
func (r registryReference) StringWithinTransport() string {
	return "//" + reference.FamiliarString(r.named)
}

func (r registryReference) PolicyConfigurationIdentity() string {
	identity, err := policyconfiguration.DockerReferenceIdentity(r.named)
	if err != nil {
		return "" // impossible after parseReference: the reference has a tag or a digest
	}
	return identity
}

func (r registryReference) PolicyConfigurationNamespaces() []string {
	return policyconfiguration.DockerReferenceNamespaces(r.named)
}

// registryTransport is the transport of images in registries. Only its name is used.
type registryTransport struct{ types.ImageTransport }

func (registryTransport) Name() string { return dockerTransport }
