// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
	"github.com/capi-installer/capi-installer/internal/text"
)

const generateLong = `Render a kustomize directory (as "kustomize build" does, without plugins and helm), edit the objects for OpenShift or for any Kubernetes cluster,
and write the bundle: metadata.json and manifests.yaml. The same input always gives the same bytes. "capi-manifests transforms" lists
the edits with their reasons; --transform and --skip-transform select.

With --profile kubernetes, the installer issues the certificates of webhooks, pods get no annotations of OpenShift, and webhooks work in all
namespaces. --keep-namespace leaves the objects in the namespaces of the provider; the installer then needs permissions there.

Variables such as ${LOGLEVEL:=0} are kept for the cluster. Images must be pinned by digest, except for the provider's own image: the
placeholder --image-name replaces it, and the cluster replaces the placeholder by the image that holds the bundle.

The flags of OpenShift's manifests-gen are accepted too, so a Makefile only has to replace the command: docs/manifests-gen.md lists them.`

const generateExample = `  # The image of the container named manager is the provider's own image
  capi-manifests generate ./config/default --output-dir capi-manifests \
    --provider-name cluster-api-provider-aws --provider-type infrastructure --provider-version v2.10.0 --platform AWS \
    --image-name registry.ci.openshift.org/openshift:aws-cluster-api-controllers

  # Pin the image of a sidecar by digest
  capi-manifests generate ./config ... --image gcr.io/kube-rbac-proxy:v0.16=quay.io/openshift/proxy@sha256:…

  # Write ConfigMaps for a release that does not read manifests from images yet
  capi-manifests generate ./config ... --image-name quay.io/openshift/capa@sha256:… \
    --transport configmap --release-version 4.22.3 --output-dir manifests

  # Also write a clusterctl release, as "infrastructure-aws/v2.10.0" in a local repository
  capi-manifests generate ./config/default ... --clusterctl-dir repository --clusterctl-metadata metadata.yaml

  # Compare with the bundle of another tool, object by object; nothing is written
  capi-manifests generate ./config/default ... --compare capi-manifests`

// generateFlags are the flags of generate.
type generateFlags struct {
	provider   providerFlags
	old        manifestsGenFlags
	clusterctl clusterctlFlags
	outputDir  string
	verbose    bool
	compare    string
	transport  transportFlags
	format     cli.Output
}

func newGenerate() *cobra.Command {
	f := &generateFlags{}
	cmd := &cobra.Command{
		Use:     "generate DIR",
		Short:   "Generate a bundle from a kustomize directory",
		Long:    generateLong,
		Example: generateExample,
		Args:    f.old.args,
		RunE:    f.run,
	}
	f.provider.register(cmd)
	set := cmd.Flags()
	set.StringVar(&f.outputDir, "output-dir", "capi-manifests", "output `directory` for metadata.json and manifests.yaml")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "list of all edited objects")
	set.StringVar(&f.compare, "compare", "", "`directory` of a bundle to compare with; nothing is written, and the exit code is 1 if an object differs")
	f.transport.register(cmd)
	f.old.register(cmd, &f.provider)
	f.clusterctl.register(cmd)
	f.format.Register(cmd)
	_ = cmd.MarkFlagDirname("output-dir") // the flags exist
	_ = cmd.MarkFlagDirname("compare")
	return cmd
}

// providerFlags describe the provider in a kustomize directory, and configure the
// transforms.
type providerFlags struct {
	generate.Options
	providerType string
	images       []string
	set          *pflag.FlagSet
}

func (f *providerFlags) register(cmd *cobra.Command) {
	f.set = pflag.NewFlagSet("provider", pflag.ContinueOnError)
	set := f.set
	set.StringVar(&f.ProviderName, "provider-name", "", "name of the provider, such as cluster-api-provider-aws")
	set.StringVar(&f.providerType, "provider-type", "", "provider type: "+text.Join(extractor.ProviderTypes()))
	set.StringVar(&f.ProviderVersion, "provider-version", "", "version of the provider, such as v2.10.0")
	set.StringVar(&f.OCPPlatform, "platform", "", "`platform` of the provider, such as AWS; with --profile kubernetes any name, such as Docker (default every platform)")
	set.StringVar(&f.ImageName, "image-name", "", "placeholder for the provider's own image; required if the provider has pods")
	set.StringArrayVar(&f.images, "image", nil, "`old=new` image replacement; new is pinned by digest or is --image-name; may be repeated")
	set.StringVar(&f.Namespace, "namespace", "", "target `namespace` of the provider (default "+v1alpha1.OpenShiftNamespaces.Operand+", or "+v1alpha1.KubernetesNamespaces.Operand+" with --profile kubernetes)")
	set.Var(&f.Profile, "profile", "kind of cluster that the bundle is for: "+strings.Join(extractor.ClusterProfileNames(), ", "))
	set.BoolVar(&f.KeepNamespaces, "keep-namespace", false, "objects stay in the namespaces of the provider; requires --profile kubernetes")
	set.StringSliceVar(&f.ProtectClusters, "protect-cluster-resource", nil, "singular `name` of a resource, such as awscluster, whose object of the management cluster is protected (default every InfraCluster); may be repeated")
	set.StringSliceVar(&f.OnlyTransforms, "transform", nil, "`name` of a transform to apply (default all); may be repeated")
	set.StringSliceVar(&f.SkipTransforms, "skip-transform", nil, "`name` of a transform to skip; may be repeated")
	cmd.Flags().AddFlagSet(set)
	f.complete(cmd)
}

// registerNames registers only the flags that name the provider and its images.
func (f *providerFlags) registerNames(cmd *cobra.Command) {
	all := cobra.Command{}
	f.register(&all)
	every := f.set
	f.set = pflag.NewFlagSet("provider", pflag.ContinueOnError)
	for _, name := range []string{"provider-name", "provider-type", "provider-version", "image-name", "image"} {
		f.set.AddFlag(every.Lookup(name))
	}
	cmd.Flags().AddFlagSet(f.set)
}

// given returns the flags that are set on the command line, such as "--platform".
func (f *providerFlags) given() (names []string) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// complete registers the known values for shell completion.
func (f *providerFlags) complete(cmd *cobra.Command) {
	var types []string
	for _, providerType := range extractor.ProviderTypes() {
		types = append(types, string(providerType))
	}
	cli.CompleteFixed(cmd, "provider-type", types...)
	cli.CompleteFixed(cmd, "profile", extractor.ClusterProfileNames()...)
	cli.CompleteFixed(cmd, "transform", transformNames()...)
	cli.CompleteFixed(cmd, "skip-transform", transformNames()...)
	cli.CompletePlatform(cmd)
}

// options returns the options for a kustomize directory.
func (f *providerFlags) options(dir string) (generate.Options, error) {
	images, err := cli.Pairs("image", f.images)
	if err != nil {
		return generate.Options{}, err
	}
	options := f.Options
	options.Dir, options.ProviderType, options.Images = dir, extractor.ProviderType(f.providerType), images
	return options, nil
}

func (f *generateFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.old.apply(cmd, &f.provider); err != nil {
		return err
	}
	if err := cli.Required(cmd, "provider-name", "provider-type", "provider-version", "output-dir"); err != nil {
		return err
	}
	if err := f.transport.check(f.provider.ImageName); err != nil {
		return err
	}
	options, err := f.provider.options(f.old.dir(args))
	if err != nil {
		return err
	}
	g, err := f.make(options)
	if err != nil {
		return err
	}
	if f.compare != "" {
		return compareWith(cmd, f.compare, options.Dir, g.Bundle)
	}
	written, err := f.write(cmd, g.Bundle, g.Release)
	if err != nil {
		return err
	}
	g.summarize(cmd.ErrOrStderr(), written, f.verbose)
	if f.format == cli.Table {
		return nil
	}
	return f.format.Write(cmd.OutOrStdout(), g.output(), nil)
}

func (f *generateFlags) make(options generate.Options) (g generated, err error) {
	if g.Bundle, g.Summary, err = generate.Bundle(options); err == nil {
		g.Release, err = f.clusterctl.release(options)
	}
	return g, inputError(err)
}

// write writes the bundle in the requested layouts, and returns the files, sorted.
func (f *generateFlags) write(cmd *cobra.Command, generated extractor.Bundle, release clusterctl.Release) ([]string, error) {
	dirs := map[string]map[string][]byte{}
	add := func(dir string, files map[string][]byte) {
		dir = filepath.Clean(dir)
		if dirs[dir] == nil {
			dirs[dir] = map[string][]byte{}
		}
		maps.Copy(dirs[dir], files)
	}
	if f.clusterctl.repository != "" {
		add(filepath.Join(f.clusterctl.repository, release.Dir), release.Files)
	}
	if f.old.manifestsPath != "" {
		files, err := f.old.files(generated)
		if err != nil {
			return nil, err
		}
		add(filepath.Join(f.old.manifestsPath, f.old.profile), files)
	}
	if f.old.manifestsPath == "" || cmd.Flag("output-dir").Changed {
		files, err := f.transport.files(generated)
		if err != nil {
			return nil, err
		}
		add(f.outputDir, files)
	}
	if err := bundle.WriteDirs(cmd.Context(), dirs); err != nil {
		return nil, err
	}
	var written []string
	for dir, files := range dirs {
		for name := range files {
			written = append(written, filepath.Join(dir, name))
		}
	}
	slices.Sort(written)
	return written, nil
}

// clusterctlFlags holds the flags for a clusterctl release.
type clusterctlFlags struct{ repository, metadata string }

func (f *clusterctlFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.repository, "clusterctl-dir", "", "`directory` of a clusterctl repository; the release, without the edits for OpenShift, is written to <provider label>/<version> in it")
	set.StringVar(&f.metadata, "clusterctl-metadata", "", "`file` with the provider's metadata.yaml and its release series (default generated for this version)")
	_ = cmd.MarkFlagDirname("clusterctl-dir") // both flags exist
	_ = cmd.MarkFlagFilename("clusterctl-metadata", "yaml")
}

// release returns the clusterctl release, if a flag requests it.
func (f *clusterctlFlags) release(options generate.Options) (clusterctl.Release, error) {
	switch {
	case f.repository == "" && f.metadata != "":
		return clusterctl.Release{}, &transform.OptionsError{Err: errors.New("--clusterctl-metadata requires --clusterctl-dir")}
	case f.repository == "":
		return clusterctl.Release{}, nil
	}
	var metadata []byte
	if f.metadata != "" {
		var err error
		if metadata, err = os.ReadFile(f.metadata); err != nil {
			return clusterctl.Release{}, err
		}
	}
	return clusterctl.New(options, metadata)
}

// How a bundle gets into a cluster.
const (
	byImage     = "image"
	byConfigMap = "configmap"
)

// transportFlags select the form of the written bundle.
type transportFlags struct{ by, release string }

func (f *transportFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.by, "transport", byImage, "output `form`: image for the files of a provider image, configmap for ConfigMaps that the cluster version operator applies, with --image-name by digest")
	set.StringVar(&f.release, "release-version", "", "release `version` of the ConfigMaps, such as 4.22.3")
	cli.CompleteFixed(cmd, "transport", byImage, byConfigMap)
}

// check returns all errors of the flags.
func (f *transportFlags) check(imageName string) error {
	var errs []error
	switch f.by {
	case byImage:
		if f.release != "" {
			errs = append(errs, errors.New("--release-version requires --transport configmap; an image belongs to every release that lists it"))
		}
	case byConfigMap:
		if f.release == "" {
			errs = append(errs, errors.New("--transport configmap requires --release-version, such as 4.22.3"))
		}
		if _, err := name.NewDigest(imageName); imageName != "" && err != nil {
			errs = append(errs, fmt.Errorf("--transport configmap requires --image-name by digest, because a placeholder in ConfigMaps is not replaced: %w", err))
		}
	default:
		errs = append(errs, fmt.Errorf("invalid --transport %q: want %s or %s", f.by, byImage, byConfigMap))
	}
	if err := errors.Join(errs...); err != nil {
		return cli.WrongUsage(err)
	}
	return nil
}

// files returns the output files of a bundle by name.
func (f *transportFlags) files(bundle extractor.Bundle) (map[string][]byte, error) {
	if f.by == byImage {
		content, err := bundle.Files()
		return byName(content), err
	}
	bundle.Metadata.ImageName = "" // already the image of the release, not a placeholder
	configMaps, err := configmap.ConfigMaps(bundle, f.release)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, configMap := range configMaps {
		for _, profile := range []string{"self-managed-high-availability", "single-node-developer"} {
			configMap.Annotations["include.release.openshift.io/"+profile] = "true"
		}
		encoded, err := yaml.Marshal(configMap)
		if err != nil {
			return nil, fmt.Errorf("writing ConfigMap %s: %w", configMap.Name, err)
		}
		files[fmt.Sprintf("0000_30_cluster-api_10_%s.yaml", configMap.Name)] = encoded
	}
	return files, nil
}

// generated is the result of generate: a bundle and, if its files are not empty, a clusterctl release.
type generated struct {
	Bundle  extractor.Bundle
	Summary generate.Summary
	Release clusterctl.Release
}

// generateOutput is the output of generate.
type generateOutput struct {
	Metadata extractor.Metadata `json:"metadata"`
	Summary  generate.Summary   `json:"summary"`
	// Clusterctl is the path of the clusterctl release in its repository;
	// ClusterctlNotes are notes about the release.
	Clusterctl      string   `json:"clusterctl,omitempty"`
	ClusterctlNotes []string `json:"clusterctlNotes,omitempty"`
}

// output returns the output.
func (g generated) output() generateOutput {
	return generateOutput{g.Bundle.Metadata, g.Summary, g.Release.Dir, g.Release.Notes}
}

// summarize writes the results of the transforms and the written files; verbose lists the objects.
func (g generated) summarize(w io.Writer, written []string, verbose bool) {
	for _, result := range g.Summary.Results {
		fmt.Fprintf(w, "%-28s  %s\n", result.Transform, outcome(result))
		if !verbose {
			continue
		}
		for _, part := range partsOf(result) {
			for _, object := range part.objects {
				fmt.Fprintf(w, "  %s %s\n", part.does, term.Printable(object))
			}
		}
	}
	for _, note := range slices.Concat(g.Summary.Missing, g.Release.Notes) {
		fmt.Fprintf(w, "note: %s\n", term.Printable(note))
	}
	fmt.Fprintf(w, "wrote %s: %d objects from %d, content ID %s\n",
		listed(written), g.Summary.Written, g.Summary.Read, g.Bundle.Metadata.ContentID)
}

// listed formats a list: "a", "a and b" or "a, b and c".
func listed(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// part is one kind of edit that a transform makes.
type part struct {
	does, done string
	objects    []string
}

func partsOf(result transform.Result) []part {
	return []part{{"changes", "changed", result.Changed}, {"drops", "dropped", result.Dropped}, {"adds", "added", result.Added}}
}

// outcome formats the result of a transform: "2 changed (CustomResourceDefinition,
// Service), 1 dropped (Namespace)".
func outcome(result transform.Result) string {
	var texts []string
	for _, part := range partsOf(result) {
		if len(part.objects) > 0 {
			texts = append(texts, fmt.Sprintf("%d %s (%s)", len(part.objects), part.done, term.Printable(kindsOf(part.objects))))
		}
	}
	switch {
	case result.Skipped:
		return "skipped"
	case len(texts) == 0:
		return "nothing to do"
	}
	return strings.Join(texts, ", ")
}

// kindsOf formats the kinds of objects such as "Service capi-system/webhook", with
// their counts: "2 Service, Role".
func kindsOf(objects []string) string {
	counts := map[string]int{}
	for _, object := range objects {
		kind, _, _ := strings.Cut(object, " ")
		counts[kind]++
	}
	var kinds []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		if counts[kind] > 1 {
			kind = fmt.Sprintf("%d %s", counts[kind], kind)
		}
		kinds = append(kinds, kind)
	}
	return strings.Join(kinds, ", ")
}

// inputError marks errors in the content of a kustomize directory as invalid. It
// does not change errors of options and files.
func inputError(err error) error {
	_, isOptions := errors.AsType[*transform.OptionsError](err)
	_, isFile := errors.AsType[*fs.PathError](err)
	if err == nil || isOptions || isFile {
		return err
	}
	return &source.InvalidError{Err: err}
}
