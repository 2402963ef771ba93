// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/mirroring"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

const mirrorLong = `Copy the images of a release to a registry or a directory, for clusters without access to the
original registries. Images are copied by digest, with all platforms, cosign signatures and
attestations, and referrers. An interrupted copy continues: existing content is skipped.

--images-json names the providers' images; the images by digest in their manifests are copied, too.
--image names further ones, such as the installer's. --from-dir copies everything in the directory,
and needs no list. --list prints the images and copies nothing. In a registry, an image has the path
that it has in its own registry, below the path of --to.

Standard output is the configuration of the mirror: an ImageDigestMirrorSet for OpenShift, or a
registries.conf for ConfigMap capi-installer-registries and for the nodes of other clusters.
images.json and signature policies stay as they are: they name the original images.`

const mirrorExample = `  # Copy the images of a release to a registry, and configure the cluster
  capi-manifests mirror --images-json images.json --image quay.io/me/capi-installer@sha256:… --to mirror.example.com/capi | oc apply -f -

  # List the images of a release
  capi-manifests mirror --images-json images.json --list

  # By way of a directory to carry to the other network
  capi-manifests mirror --images-json images.json --to-dir release
  capi-manifests mirror --from-dir release --to mirror.example.com/capi -o registries.conf > registries.conf`

// mirrorFlags are the flags of mirror.
type mirrorFlags struct {
	imagesJSON, to, toDir, fromDir, output string
	images                                 []string
	onlyList                               bool
}

// The formats of the configuration.
const (
	mirrorSet      = "idms"
	registriesConf = "registries.conf"
)

func newMirror() *cobra.Command {
	f := &mirrorFlags{}
	cmd := &cobra.Command{
		Use:               "mirror",
		Short:             "Copy the images of a release elsewhere",
		Long:              mirrorLong,
		Example:           mirrorExample,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.imagesJSON, "images-json", "", "`file` with the images of the release; - is stdin")
	flags.StringArrayVar(&f.images, "image", nil, "further `image` by digest; may be repeated")
	flags.StringVar(&f.to, "to", "", "`registry` with an optional path to copy to, such as mirror.example.com:5000/capi")
	flags.StringVar(&f.toDir, "to-dir", "", "`directory` to copy to, an OCI layout")
	flags.StringVar(&f.fromDir, "from-dir", "", "`directory` to copy from (default the registries of the images)")
	flags.BoolVar(&f.onlyList, "list", false, "print the images, and copy nothing")
	flags.StringVarP(&f.output, "output", "o", mirrorSet, "format of the configuration: "+mirrorSet+", "+registriesConf)
	cli.CompleteFixed(cmd, "output", mirrorSet, registriesConf)
	return cmd
}

func (f *mirrorFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	ctx, from, to := cmd.Context(), mirroring.Place{Directory: f.fromDir}, mirroring.Place{Directory: f.toDir, Prefix: strings.TrimSuffix(f.to, "/")}
	images, err := f.list(cmd)
	if err == nil && f.fromDir != "" {
		var carried []name.Digest
		if carried, err = from.Images(); err != nil {
			err = fmt.Errorf("opening --from-dir: %w", err)
		}
		images = append(images, carried...)
	}
	if err != nil {
		return err
	}
	seen, repositories, errs := map[string]bool{}, map[string]string{}, []error(nil)
	for _, image := range images {
		if seen[image.Name()] {
			continue
		}
		seen[image.Name()], repositories[image.Context().Name()] = true, to.Repository(image.Context())
		if f.onlyList {
			fmt.Fprintln(cmd.OutOrStdout(), image)
			continue
		}
		err := mirroring.Copy(ctx, from, to, image)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "copied %s\n", image)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || f.to == "" {
		return err
	}
	return f.configure(cmd, repositories)
}

// configure writes the configuration of the mirror. repositories are the repositories of the mirror by their sources.
func (f *mirrorFlags) configure(cmd *cobra.Command, repositories map[string]string) error {
	target, err := name.ParseReference(f.to + "/image:tag")
	if err == nil {
		target, _, err = source.Target(cmd.Context(), target)
	}
	if err != nil {
		return err
	}
	insecure := target.Context().Scheme() == "http"
	set := configv1.ImageDigestMirrorSet{}
	for _, from := range slices.Sorted(maps.Keys(repositories)) {
		if f.output == registriesConf {
			fmt.Fprintf(cmd.OutOrStdout(), "[[registry]]\nlocation = %q\n\n[[registry.mirror]]\nlocation = %q\npull-from-mirror = \"digest-only\"\ninsecure = %t\n\n", from, repositories[from], insecure)
		}
		set.Spec.ImageDigestMirrors = append(set.Spec.ImageDigestMirrors, configv1.ImageDigestMirrors{Source: from, Mirrors: []configv1.ImageMirror{configv1.ImageMirror(repositories[from])}})
	}
	if f.output == registriesConf {
		return nil
	}
	if insecure {
		fmt.Fprintf(cmd.ErrOrStderr(), "the mirror has no TLS: add %s to registrySources.insecureRegistries of Image \"cluster\"\n", target.Context().RegistryStr())
	}
	content, err := yaml.Marshal(map[string]any{"apiVersion": configv1.GroupVersion.String(), "kind": "ImageDigestMirrorSet", "metadata": map[string]any{"name": "capi-installer"}, "spec": set.Spec})
	if err == nil {
		_, err = cmd.OutOrStdout().Write(content)
	}
	return err
}

func (f *mirrorFlags) check() error {
	var errs []error
	if f.imagesJSON == "" && len(f.images) == 0 && f.fromDir == "" {
		errs = append(errs, errors.New("no images: want --images-json, --image or --from-dir"))
	}
	targets := 0
	for _, given := range []bool{f.to != "", f.toDir != "", f.onlyList} {
		if given {
			targets++
		}
	}
	if targets != 1 {
		errs = append(errs, errors.New("want either --to, --to-dir or --list"))
	}
	if f.to != "" {
		if _, err := source.ParseImage(f.to + "/image:tag"); err != nil {
			errs = append(errs, fmt.Errorf("invalid --to %q: %w", f.to, err))
		}
	}
	if f.output != mirrorSet && f.output != registriesConf {
		errs = append(errs, fmt.Errorf("invalid -o %q: want %s or %s", f.output, mirrorSet, registriesConf))
	}
	return cli.WrongUsage(errs...)
}

// list returns the images of images.json and of their manifests, and of --image. The manifests are not read for --from-dir: the directory
// has their images.
func (f *mirrorFlags) list(cmd *cobra.Command) (images []name.Digest, err error) {
	references := f.images
	if f.imagesJSON != "" {
		data, err := release.ReadFile(f.imagesJSON, cmd.InOrStdin())
		if err != nil {
			return nil, err
		}
		parsed, err := imagesjson.Parse(data)
		if err != nil {
			return nil, &source.InvalidError{Err: fmt.Errorf("reading %s: %w", f.imagesJSON, err)}
		}
		for _, image := range parsed {
			references = append(references, image.Reference)
		}
		if f.fromDir == "" {
			named, err := inManifests(cmd, parsed)
			if err != nil {
				return nil, err
			}
			references = append(references, named...)
		}
	}
	var errs []error
	for _, reference := range references {
		ref, err := source.ParseImage(reference)
		digest, byDigest := ref.(name.Digest)
		if err == nil && !byDigest {
			err = errors.New("want an image by digest; \"capi-manifests images\" resolves tags")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("invalid image %q: %w", reference, err))
			continue
		}
		images = append(images, digest)
	}
	return images, cli.WrongUsage(errs...)
}

// inManifests returns the images by digest in the manifests of the providers, such as images of sidecars. A cluster accepts no others.
func inManifests(cmd *cobra.Command, images imagesjson.Images) (references []string, err error) {
	results, err := release.Source{}.Pull(cmd.Context(), images, cmd.ErrOrStderr())
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, result := range results {
		errs = append(errs, result.Err)
		for _, bundle := range result.Bundles {
			objects, err := yamldoc.Objects(bundle.Manifests)
			errs = append(errs, err)
			references = append(references, object.PinnedImages(objects...)...)
		}
	}
	return references, errors.Join(errs...)
}
