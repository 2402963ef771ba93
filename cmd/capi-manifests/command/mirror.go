// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/opencontainers/go-digest"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"
	"go.podman.io/image/v5/copy"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/manifest"
	"go.podman.io/image/v5/oci/layout"
	"go.podman.io/image/v5/signature"
	"go.podman.io/image/v5/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

const mirrorLong = `Copy the images of a release to a registry or a directory, for clusters without access to the
original registries. Images are copied by digest, with all platforms, cosign signatures and
attestations, and referrers. An interrupted copy continues: existing content is skipped.

--images-json names the providers' images; the images by digest in their manifests are copied, too.
--image names further ones, such as the installer's. --from-dir copies everything in the directory.
--list prints the images and copies nothing. In a registry, an image has the path
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

// registriesConf is the other format of the configuration than the default one.
const registriesConf = "registries.conf"

func newMirror() *cobra.Command {
	f := &mirrorFlags{output: "idms"}
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
	cli.Choice[string]{Value: &f.output, Kind: "format", Texts: []string{f.output, registriesConf}, Error: "must be idms or registries.conf"}.
		Register(cmd, "output", "o", "format of the configuration: idms or registries.conf")
	return cmd
}

func (f *mirrorFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	images, err := f.list(cmd)
	if err != nil {
		return err
	}
	seen, repositories, errs := map[string]bool{}, map[string]string{}, []error(nil)
	for _, image := range images {
		if seen[image.Name()] {
			continue
		}
		seen[image.Name()], repositories[image.Context().Name()] = true, f.repository(image.Context())
		if f.onlyList {
			fmt.Fprintln(cmd.OutOrStdout(), image)
			continue
		}
		err := f.copyAll(cmd.Context(), image)
		if cmd.Context().Err() != nil {
			return cmd.Context().Err()
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

func (f *mirrorFlags) check() error {
	var errs []error
	if given := f.imagesJSON != "" || len(f.images) > 0; given == (f.fromDir != "") {
		errs = append(errs, errors.New("want either --from-dir, or --images-json or --image"))
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
		if scheme, rest, found := strings.Cut(f.to, "://"); found {
			errs = append(errs, fmt.Errorf("invalid --to %q: want a registry without %s://, as in --to %s; a registry without TLS has insecure = true in registries.conf", f.to, scheme, rest))
		} else if _, err := source.ParseImage(f.to + "/image:tag"); err != nil {
			errs = append(errs, fmt.Errorf("invalid --to %q: want a registry with an optional path: %w", f.to, err))
		}
	}
	return cli.WrongUsage(errs...)
}

// list returns the images of images.json and of their manifests, and of --image; or everything in the directory of --from-dir.
func (f *mirrorFlags) list(cmd *cobra.Command) ([]name.Reference, error) {
	if f.fromDir != "" {
		return inLayout(f.fromDir)
	}
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
		named, err := inManifests(cmd, parsed)
		if err != nil {
			return nil, err
		}
		references = append(references, named...)
	}
	var images []name.Reference
	var errs []error
	for _, reference := range references {
		ref, err := source.ParseImage(reference)
		if _, byDigest := ref.(name.Digest); err == nil && !byDigest {
			err = errors.New("want an image by digest; \"capi-manifests images\" resolves tags")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("invalid image %q: %w", reference, err))
		}
		images = append(images, ref)
	}
	return images, cli.WrongUsage(errs...)
}

// inLayout returns the names of the manifests in a directory: images with the attachments and referrers that were copied with them.
func inLayout(dir string) (names []name.Reference, err error) {
	entries, err := layout.List(dir)
	if err == nil && len(entries) == 0 {
		err = errors.New("the directory has no images")
	}
	for _, entry := range entries {
		called := entry.ManifestDescriptor.Annotations[imagespec.AnnotationRefName]
		ref, errRef := name.ParseReference(called, name.StrictValidation)
		if errRef != nil {
			err = errors.Join(err, fmt.Errorf("the name %q of manifest %s is not a reference: want an OCI layout that \"capi-manifests mirror --to-dir\" wrote: %w", called, entry.ManifestDescriptor.Digest, errRef))
		}
		names = append(names, ref)
	}
	if err != nil {
		return nil, fmt.Errorf("opening --from-dir: want a directory that \"capi-manifests mirror --to-dir\" wrote: %w", err)
	}
	return names, nil
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

// repository returns the repository of an image in the registry of --to.
func (f *mirrorFlags) repository(own name.Repository) string {
	if f.to == "" {
		return own.Name()
	}
	return path.Join(f.to, own.RepositoryStr())
}

// inRegistry returns the reference of an image in a repository.
func inRegistry(repository string, ref name.Reference) (types.ImageReference, error) {
	separator := ":"
	if _, byDigest := ref.(name.Digest); byDigest {
		separator = "@"
	}
	at, err := name.ParseReference(repository + separator + ref.Identifier())
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

// copyAll copies an image, all its platforms, and the attachments and referrers of each manifest. Content that exists is not copied again.
func (f *mirrorFlags) copyAll(ctx context.Context, image name.Reference) error {
	raw, err := f.copy(ctx, image)
	if err != nil || f.fromDir != "" { // the directory names attachments and referrers
		return err
	}
	manifests := []digest.Digest{digest.Digest(image.Identifier())}
	if kind := manifest.GuessMIMEType(raw); manifest.MIMETypeIsMultiImage(kind) {
		list, err := manifest.ListFromBlob(raw, kind)
		if err != nil {
			return fmt.Errorf("reading %s: %w", image, err)
		}
		manifests = append(manifests, list.Instances()...)
	}
	for _, d := range manifests {
		referrers, err := source.Referrers(ctx, image.Context().Digest(d.String()))
		if err != nil {
			return fmt.Errorf("listing the referrers of %s@%s: %w", image.Context(), d, err)
		}
		for _, suffix := range attachmentSuffixes {
			referrers = append(referrers, image.Context().Tag(strings.ReplaceAll(d.String(), ":", "-")+suffix))
		}
		for _, ref := range referrers {
			if _, err := f.copy(ctx, ref); err != nil && fetch.StatusOf(err) != http.StatusNotFound {
				return err
			}
		}
	}
	return nil
}

// copy copies a manifest with everything below it, and returns the manifest.
func (f *mirrorFlags) copy(ctx context.Context, ref name.Reference) ([]byte, error) {
	policy, err := signature.NewPolicyContext(&signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}})
	if err != nil {
		return nil, err
	}
	defer policy.Destroy() //nolint:errcheck // it frees memory only
	from, errFrom := inRegistry(ref.Context().Name(), ref)
	if f.fromDir != "" {
		from, errFrom = layout.NewReference(f.fromDir, ref.Name())
	}
	to, errTo := inRegistry(f.repository(ref.Context()), ref)
	if f.toDir != "" {
		var at types.ImageReference
		at, errTo = layout.NewReference(f.toDir, ref.Name())
		index := filepath.Join(f.toDir, imagespec.ImageIndexFile)
		if content, err := os.ReadFile(index); err == nil && !json.Valid(content) { // a full disk leaves a part of it, and the library does not replace it
			errTo = errors.Join(errTo, os.Remove(index))
		}
		to = anyManifest{at}
	}
	if err := errors.Join(errFrom, errTo); err != nil {
		return nil, err
	}
	raw, err := copy.Image(ctx, policy, to, from, &copy.Options{
		ImageListSelection: copy.CopyAllImages, PreserveDigests: true, RemoveSignatures: true, // the attachments are copied by their tags
		SourceCtx: system(ctx, ref.Context().Name()), DestinationCtx: system(ctx, f.repository(ref.Context())),
	})
	if err != nil {
		return nil, fmt.Errorf("copying %s: %w", ref, f.withAdvice(err, ref.Context()))
	}
	return raw, nil
}

// withAdvice adds the next step to an error of a registry that rejects the credentials: of an image's own registry, or of --to.
func (f *mirrorFlags) withAdvice(err error, own name.Repository) error {
	if f.fromDir == "" {
		err = source.WithAdvice(err, own)
	}
	if to, errTo := name.NewRepository(f.repository(own)); f.to != "" && errTo == nil {
		err = source.WithAdvice(err, to)
	}
	return err
}

// system returns the configuration of the user's container tools.
func system(ctx context.Context, repository string) *types.SystemContext {
	sys := &types.SystemContext{AuthFilePath: os.Getenv("REGISTRY_AUTH_FILE")}
	if host, _, _ := strings.Cut(repository, "/"); fetch.PlainHTTP(ctx, host) {
		sys.DockerInsecureSkipTLSVerify = types.OptionalBoolTrue
	}
	return sys
}
