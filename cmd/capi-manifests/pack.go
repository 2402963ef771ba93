// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

const packLong = `Pack appends one layer with the bundle to a base image, or makes an image of
nothing but the bundle, and pushes it, or writes an OCI layout, or both.
No container engine is needed.

The image is reproducible: the same bundle on the same base has the same digest,
everywhere and always. What is printed is the reference by digest, as images.json
wants it.

SOURCE is a directory with metadata.json and manifests.yaml (what "generate"
writes, or the root of an image with capi-manifests/ in it), an OCI layout, or an image.`

const packExample = `  # Into the provider's own image
  capi-manifests pack capi-manifests --base quay.io/me/capa:v2.10.0 --push quay.io/me/capa:v2.10.0-bundled

  # An image of nothing but the bundle, as an OCI layout
  capi-manifests pack capi-manifests --output-layout capa.oci

  # The line for images.json
  capi-manifests pack capi-manifests --push quay.io/me/capa:v2.10.0 -o json | jq '{"aws-cluster-api-controllers": .reference}'`

// packFlags are the flags of pack.
type packFlags struct {
	base, basePlatform, push, outputLayout string
	format                                 output
}

// packedImage is the data of pack.
type packedImage struct {
	// Reference is the pushed image by digest; empty if it was not pushed.
	Reference string `json:"reference,omitempty"`
	Digest    string `json:"digest"`
	// Layout is the directory of the OCI layout; empty if none was written.
	Layout string `json:"layout,omitempty"`
	// Base is the base image by digest; empty if there is none.
	Base     string   `json:"base,omitempty"`
	Metadata metadata `json:"metadata"`
}

func newPack() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:     "pack SOURCE (--push IMAGE | --output-layout DIR)",
		Short:   "Put a bundle into an image",
		Long:    packLong,
		Example: packExample,
		Args:    oneArg("SOURCE, the directory of the bundle"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.StringVar(&f.base, "base", "", "image or OCI layout to append to; without it the image holds only the bundle")
	set.StringVar(&f.basePlatform, "base-platform", "linux/amd64", "which image of a base for several platforms to take")
	set.StringVar(&f.push, "push", "", "`image`, by tag, to push to")
	set.StringVar(&f.outputLayout, "output-layout", "", "`directory` to write an OCI layout to; a layout that is there is replaced")
	f.format.register(cmd)
	_ = cmd.MarkFlagDirname("output-layout") // the flag exists
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command, source string) error {
	target, platform, err := f.parse(cmd)
	if err != nil {
		return err
	}
	bundles, _, err := bundlesAt(cmd.Context(), cmd.ErrOrStderr(), source)
	if err != nil {
		return err
	}
	if len(bundles) != 1 {
		return &invalidError{fmt.Errorf("%s holds %d bundles (%s); an image is packed with one", source, len(bundles), providers(bundles))}
	}
	base, baseName, err := f.baseImage(cmd.Context(), platform)
	if err != nil {
		return err
	}
	image, err := build.Pack(base, bundles[0])
	if err != nil {
		return err
	}
	packed := packedImage{Base: baseName, Layout: f.outputLayout, Metadata: metadataOf(bundles[0].Metadata)}
	if err := f.deliver(cmd, image, target, &packed); err != nil {
		return err
	}
	return f.format.write(cmd.OutOrStdout(), packed, func(w *bytes.Buffer) {
		if packed.Reference != "" {
			fmt.Fprintln(w, packed.Reference)
		} else {
			fmt.Fprintln(w, packed.Digest)
		}
	})
}

// parse reads the flags that name images. target is nil without --push.
func (f *packFlags) parse(cmd *cobra.Command) (target *name.Tag, platform *v1.Platform, err error) {
	var errs []error
	if f.push == "" && f.outputLayout == "" {
		errs = append(errs, errors.New("nothing would come of it; add --push IMAGE, --output-layout DIR, or both"))
	}
	if f.push != "" {
		tag, err := name.NewTag(f.push)
		if err != nil {
			errs = append(errs, fmt.Errorf("--push %q is not an image by tag: %w", f.push, err))
		}
		target = &tag
	}
	platform, err = v1.ParsePlatform(f.basePlatform)
	if err != nil || platform.Architecture == "" {
		errs = append(errs, fmt.Errorf("--base-platform %q is not a platform such as linux/amd64", f.basePlatform))
	}
	if len(errs) > 0 {
		return nil, nil, &usageError{cmd.CommandPath(), errors.Join(errs...)}
	}
	return target, platform, nil
}

// baseImage returns the base and its name by digest; none without --base.
func (f *packFlags) baseImage(ctx context.Context, platform *v1.Platform) (v1.Image, string, error) {
	if f.base == "" {
		return nil, "", nil
	}
	kind, err := kindOf(f.base)
	switch {
	case err != nil:
		return nil, "", fmt.Errorf("reading the base: %w", err)
	case kind == isDirectory:
		return nil, "", fmt.Errorf("reading the base: %s is not an OCI layout", f.base)
	case kind == isLayout, kind == isArchive:
		image, err := imageAt(kind, f.base)
		return image, f.base, err
	}
	reference, err := resolve(ctx, f.base)
	if err != nil {
		return nil, "", fmt.Errorf("reading the base: %w", err)
	}
	image, err := pulledBase(ctx, reference, platform)
	if err != nil {
		return nil, "", fmt.Errorf("reading the base %s for %s: %w", reference, platform, err)
	}
	return image, reference, nil
}

// pulledBase returns the image of a reference by digest, from the first of its sources that has it.
func pulledBase(ctx context.Context, reference string, platform *v1.Platform) (v1.Image, error) {
	access, err := userAccess()
	if err != nil {
		return nil, err
	}
	sources, err := access.Mirrors.Sources(reference)
	if err != nil {
		return nil, err
	}
	return firstOf(ctx, access, sources, func(ref name.Reference, options ...ggcr.Option) (v1.Image, error) {
		return ggcr.Image(ref, append(options, ggcr.WithPlatform(*platform))...)
	})
}

// push writes an image to its registry, which no mirror stands for.
func push(ctx context.Context, target name.Tag, image v1.Image) error {
	access, err := userAccess()
	if err != nil {
		return err
	}
	defer access.Network.Close()
	at, err := access.Mirrors.Target(target)
	if err != nil {
		return err
	}
	return withAdvice(ggcr.Write(target, image, registryOptions(ctx, access, at)...), target.Context())
}

// deliver writes the layout and pushes the image.
func (f *packFlags) deliver(cmd *cobra.Command, image v1.Image, target *name.Tag, packed *packedImage) error {
	digest, err := image.Digest()
	if err != nil {
		return fmt.Errorf("computing the image's digest: %w", err)
	}
	packed.Digest = digest.String()
	if f.outputLayout != "" {
		if err := build.WriteLayout(f.outputLayout, image, f.push); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "wrote the OCI layout %s\n", f.outputLayout)
	}
	if target == nil {
		return nil
	}
	if err := push(cmd.Context(), *target, image); err != nil {
		return fmt.Errorf("pushing to %s: %w", target.Name(), err)
	}
	packed.Reference = target.Context().Digest(digest.String()).Name()
	fmt.Fprintf(cmd.ErrOrStderr(), "pushed %s\n", target.Name())
	return nil
}

func providers(bundles []extractor.Bundle) string {
	var names []string
	for _, bundle := range bundles {
		names = append(names, bundle.Metadata.ProviderName)
	}
	return joined(names)
}
