// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

const packLong = `Pack appends one layer with the bundle to a base image, or makes an image of
nothing but the bundle, and pushes it, or writes an OCI layout or an OCI archive.
No container engine is needed.

Of a base for several platforms every image gets the layer, and the result is for the
same platforms; --base-platform takes one of them. Attestations of the base (provenance,
SBOM) are left out, and named on stderr: they are about images that are not in the result.

The image is reproducible: the same bundle on the same base has the same digest,
everywhere and always. It says no time but the base's, or that of SOURCE_DATE_EPOCH.
What is printed is the reference by digest, as images.json wants it, or the digest if
nothing is pushed; with --quiet only the digest.

SOURCE is a directory with metadata.json and manifests.yaml (what "generate" writes, or
the root of an image with capi-manifests/ in it), an OCI layout, an archive (of "pack
--output-archive", "podman save" or "docker save"), or an image. So is the base, but for
the directory.`

const packExample = `  # Into the provider's own image, for each of its platforms
  capi-manifests pack capi-manifests --base quay.io/me/capa:v2.10.0 --push quay.io/me/capa:v2.10.0-bundled

  # An image of nothing but the bundle, as an OCI layout
  capi-manifests pack capi-manifests --output-layout capa.oci

  # Onto what another step of the pipeline has built, for a later one
  capi-manifests pack capi-manifests --base built.tar --output-archive bundled.tar

  # With the time of the last commit, and the digest for a script
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) capi-manifests pack capi-manifests --push quay.io/me/capa:v2.10.0 --quiet

  # The line for images.json
  capi-manifests pack capi-manifests --push quay.io/me/capa:v2.10.0 -o json | jq '{"aws-cluster-api-controllers": .reference}'`

// packFlags are the flags of pack.
type packFlags struct {
	base, basePlatform, push    string
	outputLayout, outputArchive string
	quiet                       bool
	format                      output
}

// packedImage is the data of pack.
type packedImage struct {
	// Reference is the pushed image by digest; empty if it was not pushed.
	Reference string `json:"reference,omitempty"`
	Digest    string `json:"digest"`
	// Layout is the directory of the OCI layout and Archive the file of the OCI archive; empty if none was written.
	Layout  string `json:"layout,omitempty"`
	Archive string `json:"archive,omitempty"`
	// Base is the base image by digest, or its path; empty if there is none.
	Base string `json:"base,omitempty"`
	// Platforms are those of the images that were packed.
	Platforms []string `json:"platforms,omitempty"`
	// LeftOut is what the base index has and the packed one has not.
	LeftOut  []build.LeftOut `json:"leftOut,omitempty"`
	Metadata metadata        `json:"metadata"`

	// image is a v1.Image or a v1.ImageIndex.
	image mutate.Appendable
}

func newPack() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:               "pack SOURCE (--push IMAGE | --output-layout DIR | --output-archive FILE)",
		Short:             "Put a bundle into an image",
		Long:              packLong,
		Example:           packExample,
		Args:              oneArg("SOURCE, a directory, an OCI layout, an archive or an image"),
		ValidArgsFunction: completeSource,
		RunE:              func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.StringVar(&f.base, "base", "", "image, OCI layout or archive to append to; without it the image holds only the bundle")
	set.StringVar(&f.basePlatform, "base-platform", "", "of a base for several platforms pack only the image for this one, such as linux/amd64")
	set.StringVar(&f.push, "push", "", "`image`, by tag, to push to")
	set.StringVar(&f.outputLayout, "output-layout", "", "`directory` to write an OCI layout to; a layout that is there is replaced")
	set.StringVar(&f.outputArchive, "output-archive", "", "`file` to write an OCI archive to (a tar of an OCI layout), for \"podman load\" and \"skopeo copy oci-archive:\"")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "print the digest and nothing else")
	f.format.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("base", completeSources) // the flags exist
	_ = cmd.MarkFlagDirname("output-layout")
	_ = cmd.MarkFlagFilename("output-archive", "tar")
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command, source string) error {
	stderr := cmd.ErrOrStderr()
	if f.quiet {
		stderr = io.Discard
	}
	target, platform, err := f.parse(cmd)
	if err != nil {
		return err
	}
	packer, err := packerFromEnvironment(cmd)
	if err != nil {
		return err
	}
	bundles, _, err := bundlesAt(cmd.Context(), stderr, source)
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
	packed := packedImage{Base: baseName, Layout: f.outputLayout, Archive: f.outputArchive, Metadata: metadataOf(bundles[0].Metadata)}
	if err := packed.pack(packer, base, bundles[0]); err != nil {
		return err
	}
	for _, left := range packed.LeftOut {
		fmt.Fprintf(stderr, "left out %s: %s\n", printable(left.Digest), printable(left.Reason))
	}
	if err := f.deliver(cmd.Context(), stderr, target, &packed); err != nil {
		return err
	}
	return f.format.write(cmd.OutOrStdout(), packed, func(w *bytes.Buffer) {
		if packed.Reference != "" && !f.quiet {
			fmt.Fprintln(w, packed.Reference)
		} else {
			fmt.Fprintln(w, packed.Digest)
		}
	})
}

// sourceDateEpoch is the variable by which a build is told its time
// (https://reproducible-builds.org/specs/source-date-epoch/).
const sourceDateEpoch = "SOURCE_DATE_EPOCH"

// packerFromEnvironment has images say the time that SOURCE_DATE_EPOCH gives.
func packerFromEnvironment(cmd *cobra.Command) (build.Packer, error) {
	text := os.Getenv(sourceDateEpoch)
	if text == "" {
		return build.Packer{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > maxEpoch {
		return build.Packer{}, &usageError{cmd.CommandPath(), fmt.Errorf("%s=%q is not a number of seconds since 1970; unset it, or set it with \"git log -1 --format=%%ct\"", sourceDateEpoch, text)}
	}
	created := time.Unix(seconds, 0).UTC()
	return build.Packer{Created: &created}, nil
}

// maxEpoch is the end of the year 9999, the last that the format of times can say.
const maxEpoch = 253402300799

// parse reads the flags that name images. target is nil without --push, platform without --base-platform.
func (f *packFlags) parse(cmd *cobra.Command) (target *name.Tag, platform *v1.Platform, err error) {
	var errs []error
	if f.push == "" && f.outputLayout == "" && f.outputArchive == "" {
		errs = append(errs, errors.New("nothing would come of it; add --push IMAGE, --output-layout DIR, --output-archive FILE, or several of them"))
	}
	if f.push != "" {
		tag, err := name.NewTag(f.push)
		if strings.Contains(f.push, "@") {
			err = errors.New("its digest is what comes of packing; give a tag")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--push %q is not an image by tag: %w", f.push, err))
		}
		target = &tag
	}
	if f.basePlatform != "" {
		platform, err = v1.ParsePlatform(f.basePlatform)
		if err != nil || platform.Architecture == "" {
			errs = append(errs, fmt.Errorf("--base-platform %q is not a platform such as linux/amd64", f.basePlatform))
		}
	}
	if f.quiet && f.format != asTable {
		errs = append(errs, fmt.Errorf("--quiet prints the digest and nothing else; leave out -o %s", &f.format))
	}
	if len(errs) > 0 {
		return nil, nil, &usageError{cmd.CommandPath(), errors.Join(errs...)}
	}
	return target, platform, nil
}

// pack packs the bundle onto base, which is nil, a v1.Image or a v1.ImageIndex.
func (p *packedImage) pack(packer build.Packer, base mutate.Appendable, bundle extractor.Bundle) (err error) {
	if index, is := base.(v1.ImageIndex); is {
		p.image, p.LeftOut, err = packer.Index(index, bundle)
	} else {
		image, _ := base.(v1.Image)
		p.image, err = packer.Image(image, bundle)
	}
	if err != nil {
		return err
	}
	digest, err := p.image.Digest()
	if err != nil {
		return fmt.Errorf("computing the image's digest: %w", err)
	}
	p.Digest = digest.String()
	if p.Platforms, err = platformsOf(p.image); err != nil {
		return fmt.Errorf("reading the image's platforms: %w", err)
	}
	return nil
}

func platformsOf(image mutate.Appendable) ([]string, error) {
	index, is := image.(v1.ImageIndex)
	if !is {
		config, err := image.(v1.Image).ConfigFile()
		if err != nil {
			return nil, err
		}
		return []string{config.Platform().String()}, nil
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	var platforms []string
	for _, entry := range manifest.Manifests {
		if entry.Platform != nil {
			platforms = append(platforms, entry.Platform.String())
		}
	}
	return platforms, nil
}

// push writes an image or an index to its registry, which no mirror stands for.
func push(ctx context.Context, target name.Tag, image mutate.Appendable) error {
	access, err := userAccess()
	if err != nil {
		return err
	}
	defer access.Network.Close()
	at, err := access.Mirrors.Target(target)
	if err != nil {
		return err
	}
	options := registryOptions(ctx, access, at)
	if index, is := image.(v1.ImageIndex); is {
		return withAdvice(ggcr.WriteIndex(target, index, options...), target.Context())
	}
	return withAdvice(ggcr.Write(target, image.(v1.Image), options...), target.Context())
}

// deliver writes the layout and the archive, and pushes the image.
func (f *packFlags) deliver(ctx context.Context, stderr io.Writer, target *name.Tag, packed *packedImage) error {
	if f.outputLayout != "" {
		if err := build.WriteLayout(ctx, f.outputLayout, packed.image, f.push); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote the OCI layout %s\n", f.outputLayout)
	}
	if f.outputArchive != "" {
		if err := build.WriteArchive(ctx, f.outputArchive, packed.image, f.push); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote the OCI archive %s\n", f.outputArchive)
	}
	if target == nil {
		return nil
	}
	if err := push(ctx, *target, packed.image); err != nil {
		return fmt.Errorf("pushing to %s: %w", target.Name(), err)
	}
	packed.Reference = target.Context().Digest(packed.Digest).Name()
	fmt.Fprintf(stderr, "pushed %s\n", target.Name())
	return nil
}

func providers(bundles []extractor.Bundle) string {
	var names []string
	for _, bundle := range bundles {
		names = append(names, bundle.Metadata.ProviderName)
	}
	return joined(names)
}
