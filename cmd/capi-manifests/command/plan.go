// SPDX-License-Identifier: Apache-2.0

package command

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

	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/cache"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// concurrentPulls is the maximum number of images that are pulled at the same time; large layers are pulled one after the other.
const concurrentPulls = 20

const planLong = `Pull the images of a release and show the components that capi-installer would install on a
cluster. Plan runs the same code with the same checks, and writes nothing.

It shows the components in install order with their content, the phases in which their
objects are applied, and the images that are not installed with the reason. It also shows the
pods that would be rejected in the strict namespace of manifests/components/restricted
(PodSecurity "restricted", SCC nonroot-v2), by a model of OpenShift's admission. The content ID
is the one in the status of the ClusterAPI object. Settings of the cluster are given by flags:
image overrides with --image, unmanaged CRDs with --unmanaged-crd, variables with --var.

With --against, each object is compared with a cluster: it would be created, changed,
or adopted from cluster-capi-operator. Objects of that operator that would stay are
listed too.

With --objects the rendered objects are written, in install order.`

const planExample = `  # Show components and phases on AWS
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0

  # Take images.json from a release image
  oc image extract quay.io/openshift/capi-installer:4.22 --path /etc/capi-installer/images.json:. &&
    capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0

  # Compare with the objects of a cluster
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 --objects -o yaml | kubectl diff -f -

  # Override the image of a provider
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 \
    --image aws-cluster-api-controllers=quay.io/me/capa:bundled

  # Resolve tags, set a variable, and cache the bundles
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 \
    --allow-tags --var CAPA_LOGLEVEL=4 --cache-dir ~/.cache/capi-manifests`

// planFlags are the flags of plan.
type planFlags struct {
	imagesJSON, platform, release, cacheDir string
	overrides                               overrideFlags
	allowTags, objects                      bool
	cluster                                 string
	variables, unmanaged                    []string
	format                                  output
}

func newPlan() *cobra.Command {
	f := &planFlags{}
	cmd := &cobra.Command{
		Use:     "plan",
		Short:   "Show the components that a release installs",
		Long:    planLong,
		Example: planExample,
		Args:    onlyFlags,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.registerRelease(cmd)
	cmd.Flags().StringVar(&f.cluster, "against", "", "`kubeconfig` of a cluster to compare with; nothing is written")
	cmd.Flags().BoolVar(&f.objects, "objects", false, "rendered objects only: YAML documents with -o yaml, a List with -o json")
	return cmd
}

// onlyFlags is noArgs with a suggestion for images.json without its flag.
func onlyFlags(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return wrongUsage(fmt.Errorf("accepts no arguments, received %s; did you mean --images-json %[1]s?", args[0]))
	}
	return noArgs(cmd, args)
}

// registerRelease adds the flags about a release and its cluster.
func (f *planFlags) registerRelease(cmd *cobra.Command) {
	f.registerImages(cmd)
	cmd.Flags().StringVar(&f.release, "release-version", "", "`version` of the release, such as 4.22.0")
}

// registerImages is registerRelease without the version of the release.
func (f *planFlags) registerImages(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.imagesJSON, "images-json", "", "`file` with the images of the release; - is stdin")
	set.StringVar(&f.platform, "platform", "", "OpenShift `platform` of the cluster, such as AWS")
	set.BoolVar(&f.allowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	set.StringArrayVar(&f.variables, "var", nil, "`name=value` of a variable in the manifests; may be repeated")
	set.StringSliceVar(&f.unmanaged, "unmanaged-crd", nil, "`name` of an unmanaged CRD, as in spec.unmanagedCRDs; may be repeated")
	set.StringVar(&f.cacheDir, "cache-dir", "", "cache `directory` for bundles")
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
	p, err := newPlanReport(f.release, f.platform, set, phases, results)
	if err != nil {
		return err
	}
	if f.cluster != "" {
		if p.Cluster, err = clusterActions(cmd, f.cluster, phases); err != nil {
			return err
		}
	}
	return f.format.write(cmd.OutOrStdout(), p, p.table)
}

// render renders the components of the cluster, with the name and number of its first version of the release.
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

// renderRelease returns the components of the cluster, and the bundles of all images of the release.
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

// notesTo returns a context whose logger writes notes to w.
func notesTo(ctx context.Context, w io.Writer) context.Context {
	return logr.NewContext(ctx, funcr.New(func(_, text string) { fmt.Fprintln(w, "note:", text) }, funcr.Options{}))
}

// check checks the flags, and returns the variables.
func (f *planFlags) check(cmd *cobra.Command) (map[string]string, error) {
	variables, err := pairs("var", f.variables)
	errs := []error{required(cmd, "images-json", "platform", "release-version"), knownPlatform(f.platform), err}
	if f.release != "" {
		_, _, err := revision.Next(nil, f.release)
		errs = append(errs, err)
	}
	if f.objects && f.format == asTable { // only plan has the flag
		errs = append(errs, errors.New("--objects requires -o yaml or -o json"))
	}
	return variables, wrongUsage(errs...)
}

// knownPlatform returns an error for a platform that OpenShift does not have. Empty is valid.
func knownPlatform(platform string) error {
	if platform != "" && !slices.Contains(generate.Platforms(), configv1.PlatformType(platform)) {
		return fmt.Errorf("invalid --platform %q: want one of %s (case-sensitive)", platform, joined(generate.Platforms()))
	}
	return nil
}

// images reads images.json, and looks up the digests of tags.
func (f *planFlags) images(ctx context.Context, stdin io.Reader, stderr io.Writer) (imagesjson.Images, error) {
	data, err := term.Interruptible(ctx, func() ([]byte, error) { return readFile(f.imagesJSON, stdin) })
	if err != nil {
		return nil, err
	}
	images, err := imagesjson.Parser{AllowTags: f.allowTags}.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.imagesJSON, err)
	}
	var errs []error
	for i, image := range images {
		reference, err := source.Resolve(ctx, image.Reference)
		if err != nil {
			errs = append(errs, fmt.Errorf("image %s: %w", image.Name, err))
			continue
		}
		if reference != image.Reference {
			fmt.Fprintf(stderr, "%s: resolved %s to %s\n", image.Name, image.Reference, reference)
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
	progress := term.NewProgress(stderr, distinct(images))
	store, registry := &cache.Store{Dir: f.cacheDir}, source.Registry()
	registry.Layers = store
	pulled := extractor.Images{Images: images, Fetcher: &term.Reporting{
		Fetcher:  &cache.Cached{Store: store, Next: remote.Limit(registry, concurrentPulls)},
		Progress: progress,
	}}
	results, err := pulled.Results(ctx)
	progress.End()
	if err != nil {
		return nil, fmt.Errorf("reading the images: %w", err)
	}
	progress.Summary(results)
	return results, nil
}

// distinct is how many images there are, by reference.
func distinct(images imagesjson.Images) int {
	references := map[string]bool{}
	for _, image := range images {
		references[image.Reference] = true
	}
	return len(references)
}
