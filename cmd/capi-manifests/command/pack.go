// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"cmp"
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
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/publish"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

const packLong = `Append one layer with the bundle to a base image, or build an image that holds only the
bundle, and push it, or write an OCI layout or an OCI archive. No container engine is needed.

For a multi-platform base every image gets the layer, and the result supports the same
platforms; --base-platform selects one. Attestations of the base (provenance, SBOM) describe
other images and are omitted, with a note on stderr.

The image is reproducible: the same bundle on the same base always has the same digest. Its
creation time is the base's, or SOURCE_DATE_EPOCH. The output is the reference by digest,
as images.json needs it, or the digest if the image is not pushed; with --quiet only the digest.

SOURCE is a directory with metadata.json and manifests.yaml (the output of "generate", or the
root of an image with capi-manifests/ in it), an OCI layout, an archive (of "pack
--output-archive", "podman save" or "docker save"), or an image. The base is an image, an OCI
layout or an archive.`

const packExample = `  # Append to the provider's image, for each of its platforms
  capi-manifests pack capi-manifests --base quay.io/me/capa:v2.10.0 --push quay.io/me/capa:v2.10.0-bundled

  # Build an image that holds only the bundle, as an OCI layout
  capi-manifests pack capi-manifests --output-layout capa.oci

  # Append to an archive of an earlier step of the pipeline
  capi-manifests pack capi-manifests --base built.tar --output-archive bundled.tar

  # Use the time of the last commit, and print only the digest
  SOURCE_DATE_EPOCH=$(git log -1 --format=%ct) capi-manifests pack capi-manifests --push quay.io/me/capa:v2.10.0 --quiet

  # Print the entry of images.json
  capi-manifests pack capi-manifests --push quay.io/me/capa:v2.10.0 -o json | jq '{"aws-cluster-api-controllers": .reference}'`

// packFlags are the flags of pack.
type packFlags struct {
	base, basePlatform, push    string
	outputLayout, outputArchive string
	quiet                       bool
	format                      cli.Output
}

func newPack() *cobra.Command {
	f := &packFlags{}
	cmd := &cobra.Command{
		Use:     "pack SOURCE (--push IMAGE | --output-layout DIR | --output-archive FILE)",
		Short:   "Pack a bundle into an image",
		Long:    packLong,
		Example: packExample,
		Args:    cli.OneArg("SOURCE, a directory, an OCI layout, an archive or an image"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.StringVar(&f.base, "base", "", "base image, OCI layout or archive (default an image that holds only the bundle)")
	set.StringVar(&f.basePlatform, "base-platform", "", "single `platform` of a multi-platform base, such as linux/amd64")
	set.StringVar(&f.push, "push", "", "target `image` with a tag")
	set.StringVar(&f.outputLayout, "output-layout", "", "output `directory` for an OCI layout; an existing layout is replaced")
	set.StringVar(&f.outputArchive, "output-archive", "", "output `file` for an OCI archive (a tar of an OCI layout), for \"podman load\" and \"skopeo copy oci-archive:\"")
	set.BoolVarP(&f.quiet, "quiet", "q", false, "output of the digest only")
	f.format.Register(cmd)
	_ = cmd.MarkFlagDirname("output-layout") // the flags exist
	_ = cmd.MarkFlagFilename("output-archive", "tar")
	return cmd
}

func (f *packFlags) run(cmd *cobra.Command, src string) error {
	ctx, stderr := cmd.Context(), cmd.ErrOrStderr()
	if f.quiet {
		stderr = io.Discard
	}
	target, platform, err := f.parse()
	if err != nil {
		return err
	}
	packer, err := packerFromEnvironment()
	if err != nil {
		return err
	}
	bundle, err := source.OnlyBundle(ctx, stderr, src, "pack")
	if err != nil {
		return err
	}
	packed, err := f.pack(ctx, stderr, packer, platform, bundle)
	if err != nil {
		return err
	}
	if err := f.deliver(ctx, stderr, target, packed); err != nil {
		return err
	}
	return f.format.Write(cmd.OutOrStdout(), packed, func(w *bytes.Buffer) {
		if packed.Reference != "" && !f.quiet {
			fmt.Fprintln(w, packed.Reference)
		} else {
			fmt.Fprintln(w, packed.Digest)
		}
	})
}

// pack packs a bundle on the base, and writes the omitted entries of the base to stderr.
func (f *packFlags) pack(ctx context.Context, stderr io.Writer, packer pack.Packer, platform *v1.Platform, bundle extractor.Bundle) (*publish.Packed, error) {
	packed := &publish.Packed{Layout: f.outputLayout, Archive: f.outputArchive, Metadata: bundle.Metadata}
	var base mutate.Appendable
	if f.base != "" {
		var err error
		if base, packed.Base, err = publish.Base(ctx, source.NewClient(), f.base, platform); err != nil {
			return nil, err
		}
	}
	if f.base == "" && bundle.Metadata.ImageName != "" {
		fmt.Fprintf(stderr, "note: without --base, the image contains only the bundle: pods with the image %s cannot start from it\n", term.Printable(bundle.Metadata.ImageName))
	}
	if err := packed.Pack(packer, base, bundle); err != nil {
		return nil, err
	}
	for _, omitted := range packed.Omitted {
		fmt.Fprintf(stderr, "left out %s: %s\n", term.Printable(omitted.Digest), term.Printable(omitted.Reason))
	}
	return packed, nil
}

// sourceDateEpoch is the variable with the time of a build
// (https://reproducible-builds.org/specs/source-date-epoch/).
const sourceDateEpoch = "SOURCE_DATE_EPOCH"

// packerFromEnvironment returns a packer that sets the creation time of images to SOURCE_DATE_EPOCH.
func packerFromEnvironment() (pack.Packer, error) {
	text := os.Getenv(sourceDateEpoch)
	if text == "" {
		return pack.Packer{}, nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > maxEpoch {
		return pack.Packer{}, cli.WrongUsage(fmt.Errorf("invalid %s %q: want seconds since 1970, as of \"git log -1 --format=%%ct\"", sourceDateEpoch, text))
	}
	created := time.Unix(seconds, 0).UTC()
	return pack.Packer{Created: &created}, nil
}

// maxEpoch is the end of the year 9999, the last year in RFC 3339.
const maxEpoch = 253402300799

// parse reads the flags that name images. target is nil without --push, platform without --base-platform.
func (f *packFlags) parse() (target *name.Tag, platform *v1.Platform, err error) {
	var errs []error
	if f.push == "" && f.outputLayout == "" && f.outputArchive == "" {
		errs = append(errs, errors.New("at least one of the flags --push, --output-layout and --output-archive is required"))
	}
	if f.push != "" {
		_, err := source.ParseImage(f.push)
		if strings.Contains(f.push, "@") {
			err = errors.New("the digest is a result of packing; use a tag")
		}
		tag, errTag := name.NewTag(f.push)
		if err = cmp.Or(err, errTag); err != nil {
			errs = append(errs, fmt.Errorf("invalid --push %q: want an image with a tag: %w", f.push, err))
		}
		target = &tag
	}
	if f.basePlatform != "" {
		platform, err = v1.ParsePlatform(f.basePlatform)
		if err != nil || platform.Architecture == "" {
			errs = append(errs, fmt.Errorf("invalid --base-platform %q: want a platform such as linux/amd64", f.basePlatform))
		}
	}
	if f.quiet && f.format != cli.Table {
		errs = append(errs, fmt.Errorf("--quiet and -o %s cannot be used together", &f.format))
	}
	if len(errs) > 0 {
		return nil, nil, cli.WrongUsage(errors.Join(errs...))
	}
	return target, platform, nil
}

// refName returns the name of the image in a layout: the reference to push to or,
// without one, the provider and its version.
func (f *packFlags) refName(packed *publish.Packed) string {
	return cmp.Or(f.push, packed.Metadata.ProviderName+":"+packed.Metadata.ProviderVersion)
}

// deliver writes the layout and the archive and pushes the image, as the flags
// request.
func (f *packFlags) deliver(ctx context.Context, stderr io.Writer, target *name.Tag, packed *publish.Packed) error {
	if f.outputLayout != "" {
		if err := pack.WriteLayout(ctx, f.outputLayout, packed.Image, f.refName(packed)); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote the OCI layout %s\n", f.outputLayout)
	}
	if f.outputArchive != "" {
		if err := pack.WriteArchive(ctx, f.outputArchive, packed.Image, f.refName(packed)); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "wrote the OCI archive %s\n", f.outputArchive)
	}
	if target == nil {
		return nil
	}
	if err := publish.Push(ctx, *target, packed.Image); err != nil {
		return fmt.Errorf("pushing to %s: %w", target.Name(), err)
	}
	packed.Reference = target.Context().Digest(packed.Digest).Name()
	fmt.Fprintf(stderr, "pushed %s\n", target.Name())
	return nil
}
