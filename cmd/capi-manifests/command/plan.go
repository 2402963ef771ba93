// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	configv1 "github.com/openshift/api/config/v1"
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// concurrentPulls bounds how many images are read at once; the large layers among them take turns.
const concurrentPulls = 20

const planLong = `Plan reads the images of a release and shows what capi-installer would install on a
cluster: it is the same code, with the same checks. Nothing is written anywhere.

It shows the providers in install order with their content, the phases in which
their objects are applied, and the images that are not installed with the reason.
The content ID is the one in the status of the ClusterAPI object. What a cluster adds
of its own is not known here, but can be given: image overrides with --image, unmanaged
CRDs with --unmanaged-crd, the values of variables with --var.

With --objects, the rendered objects themselves are written, in install order.`

const planExample = `  # What would be installed on AWS, and in which order?
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0

  # Straight out of a release image
  oc image extract quay.io/openshift/capi-installer:4.22 --path /etc/capi-installer/images.json:. &&
    capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0

  # What would change on this cluster?
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 --objects -o yaml | kubectl diff -f -

  # With another image of a provider
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 \
    --image aws-cluster-api-controllers=quay.io/me/capa:bundled

  # Images that are still named by tag, a value for a variable, and a cache for the next time
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 \
    --allow-tags --var CAPA_LOGLEVEL=4 --cache-dir ~/.cache/capi-manifests`

// planFlags are the flags of plan.
type planFlags struct {
	imagesJSON, platform, release, cacheDir string
	overrides                               overrideFlags
	allowTags, objects                      bool
	variables, unmanaged                    []string
	format                                  output
}

func newPlan() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Show what a release would install on a cluster",
		Long:    planLong,
		Example: planExample,
		Args:    onlyFlags,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.registerRelease(cmd)
	cmd.Flags().BoolVar(&f.objects, "objects", false, "write the rendered objects, as YAML documents with -o yaml or as a List with -o json")
	return cmd
}

// onlyFlags is noArgs for who gives images.json without its flag.
func onlyFlags(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return wrongUsage(cmd, fmt.Errorf("no arguments are wanted; there is %s; did you mean --images-json %[1]s?", args[0]))
	}
	return noArgs(cmd, args)
}

// registerRelease adds the flags that say what is installed where.
func (f *planFlags) registerRelease(cmd *cobra.Command) {
	f.registerImages(cmd)
	cmd.Flags().StringVar(&f.release, "release-version", "", "version of the release, such as 4.22.0")
}

// registerImages is registerRelease for what is the same in every version.
func (f *planFlags) registerImages(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.imagesJSON, "images-json", "", "`file` that names the operand images of the release; - is stdin")
	set.StringVar(&f.platform, "platform", "", "OpenShift platform of the cluster, such as AWS")
	set.BoolVar(&f.allowTags, "allow-tags", false, "accept images by tag, and look up their digests; a cluster accepts none")
	set.StringArrayVar(&f.variables, "var", nil, "`name=value` of a variable in the manifests; can be repeated")
	set.StringSliceVar(&f.unmanaged, "unmanaged-crd", nil, "`name` of a CRD that the cluster does not let the installer manage; can be repeated")
	set.StringVar(&f.cacheDir, "cache-dir", "", "`directory` that keeps what was read from images for the next time")
	f.overrides.register(cmd)
	f.format.register(cmd)
	completePlatform(cmd)
	_ = cmd.MarkFlagFilename("images-json", "json") // the flags exist
	_ = cmd.MarkFlagDirname("cache-dir")
}

func (f *planFlags) run(cmd *cobra.Command) error {
	name, number, set, results, err := f.render(cmd)
	if err != nil {
		return err
	}
	phases, err := revision.Phases(name, number, set, f.unmanaged)
	if err != nil {
		return err
	}
	if f.objects {
		return writeObjects(cmd.OutOrStdout(), f.format, phases)
	}
	p := newPlanned(f.release, f.platform, set, phases, results)
	return f.format.write(cmd.OutOrStdout(), p, p.table)
}

// render is what the cluster would install, under the name and number of its first version of the release.
func (f *planFlags) render(cmd *cobra.Command) (name string, number int64, set operand.Set, results []extractor.Result, err error) {
	variables, err := f.check(cmd)
	if err != nil {
		return "", 0, set, nil, err
	}
	name, number, err = revision.Next(nil, f.release)
	if err != nil {
		return "", 0, set, nil, err
	}
	set, results, err = f.renderRelease(cmd, variables)
	if err == nil {
		noteUnused(cmd.ErrOrStderr(), f.unmanaged, variables, set)
	}
	return name, number, set, results, err
}

// renderRelease is what the cluster would install, and all that the release's images hold.
func (f *planFlags) renderRelease(cmd *cobra.Command, variables map[string]string) (operand.Set, []extractor.Result, error) {
	ctx := notesTo(cmd.Context(), cmd.ErrOrStderr())
	images, err := f.images(ctx, cmd.InOrStdin(), cmd.ErrOrStderr())
	if err != nil {
		return operand.Set{}, nil, err
	}
	results, err := f.pull(ctx, images, cmd.ErrOrStderr())
	if err != nil {
		return operand.Set{}, nil, err
	}
	bundles, err := operand.Select(f.platform, results)
	if err != nil {
		return operand.Set{}, nil, err
	}
	set, err := operand.Render(bundles, variables)
	return set, results, err
}

// notesTo returns a context in which what is logged is written as notes.
func notesTo(ctx context.Context, w io.Writer) context.Context {
	return logr.NewContext(ctx, funcr.New(func(_, text string) { fmt.Fprintln(w, "note:", text) }, funcr.Options{}))
}

// check checks the flags, and returns the variables.
func (f *planFlags) check(cmd *cobra.Command) (map[string]string, error) {
	variables, err := pairs(cmd, "var", f.variables)
	errs := []error{required(cmd, "images-json", "platform", "release-version"), knownPlatform(f.platform), err}
	if f.release != "" {
		_, _, err := revision.Next(nil, f.release)
		errs = append(errs, err)
	}
	if f.objects && f.format == asTable { // only plan has the flag
		errs = append(errs, errors.New("--objects needs -o yaml or -o json"))
	}
	return variables, wrongUsage(cmd, errs...)
}

// knownPlatform refuses what is no platform of OpenShift. An empty text is not refused.
func knownPlatform(platform string) error {
	if platform != "" && !slices.Contains(build.Platforms(), configv1.PlatformType(platform)) {
		return fmt.Errorf("--platform %q is none of %s (case matters)", platform, joined(build.Platforms()))
	}
	return nil
}

// images reads images.json, and looks up the digests of tags.
func (f *planFlags) images(ctx context.Context, stdin io.Reader, stderr io.Writer) (imagesjson.Images, error) {
	data, err := readFile(f.imagesJSON, stdin)
	if err != nil {
		return nil, err
	}
	images, err := imagesjson.Parser{AllowTags: f.allowTags}.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.imagesJSON, err)
	}
	var errs []error
	for i, image := range images {
		reference, err := resolve(ctx, image.Reference)
		if err != nil {
			errs = append(errs, fmt.Errorf("image %s: %w", image.Name, err))
			continue
		}
		if reference != image.Reference {
			fmt.Fprintf(stderr, "%s: %s is %s\n", image.Name, image.Reference, reference)
			images[i].Reference = reference
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f.overrides.apply(ctx, images, stderr)
}

func readFile(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}

// pull reads the bundles of all images.
func (f *planFlags) pull(ctx context.Context, images imagesjson.Images, stderr io.Writer) ([]extractor.Result, error) {
	progress := newProgress(stderr, distinct(images))
	store, registry := &cache.Store{Dir: f.cacheDir}, puller()
	registry.Layers = store
	pulled := extractor.Images{Images: images, Fetcher: &reporting{
		Fetcher:  &cache.Cached{Store: store, Next: remote.Limit(registry, concurrentPulls)},
		progress: progress,
	}}
	results, err := pulled.Results(ctx)
	progress.end()
	if err != nil {
		return nil, fmt.Errorf("reading the images: %w", err)
	}
	progress.summary(results)
	return results, nil
}
