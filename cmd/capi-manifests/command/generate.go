// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

const generateLong = `Render a kustomize directory (as "kustomize build" does, without plugins and helm), edit the
objects for OpenShift or for any Kubernetes cluster, and write the bundle: metadata.json and
manifests.yaml. The same input always gives the same bytes.

With --profile kubernetes, the installer issues the certificates of webhooks, pods get no
annotations of OpenShift, and webhooks work in all namespaces. --keep-namespace leaves the
objects in the namespaces of the provider; the installer then needs permissions there.

Variables such as ${LOGLEVEL:=0} are kept for the cluster. Images must be pinned by digest,
except for the provider's own image, which is replaced by the placeholder --image-name; the
cluster replaces the placeholder by the image that holds the bundle.

The transforms, in the order in which they are applied ("capi-manifests transforms"
gives the reason of each; --transform and --skip-transform select):

`

const generateExample = `  # The image of the container named manager is the provider's own image
  capi-manifests generate ./config/default --output-dir capi-manifests \
    --provider-name cluster-api-provider-aws --provider-type infrastructure \
    --provider-version v2.10.0 --platform AWS \
    --image-name registry.ci.openshift.org/openshift:aws-cluster-api-controllers

  # For any Kubernetes cluster
  capi-manifests generate ./config/default --profile kubernetes \
    --provider-name cluster-api-provider-docker --provider-type infrastructure \
    --provider-version v1.14.2 --image-name registry.example.com/capd:v1.14.2

  # Pin the image of a sidecar by digest
  capi-manifests generate ./config ... --image gcr.io/kube-rbac-proxy:v0.16=quay.io/openshift/proxy@sha256:…

  # Write ConfigMaps for a release that does not read manifests from images yet
  capi-manifests generate ./config ... --image-name quay.io/openshift/capa@sha256:… \
    --transport configmap --release-version 4.22.3 --output-dir manifests

  # Also write a clusterctl release, as "infrastructure-aws/v2.10.0" in a local repository
  capi-manifests generate ./config/default ... --clusterctl-dir repository --clusterctl-metadata metadata.yaml

  # Compare with the bundle of another tool, object by object; nothing is written
  capi-manifests generate ./config/default ... --compare capi-manifests

  # Keep the resource limits of the provider, and list the edited objects
  capi-manifests generate ./config ... --skip-transform resource-requests --verbose`

// generateFlags are the flags of generate.
type generateFlags struct {
	provider   providerFlags
	old        manifestsGenFlags
	clusterctl clusterctlFlags
	outputDir  string
	verbose    bool
	compare    string
	transport  transportFlags
	format     output
}

func newGenerate() *cobra.Command {
	f := &generateFlags{}
	cmd := &cobra.Command{
		Use:     "generate DIR",
		Short:   "Generate a bundle from a kustomize directory",
		Long:    generateLong + transformHelp() + manifestsGenHelp,
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
	f.format.register(cmd)
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
	set.StringVar(&f.providerType, "provider-type", "", "provider type: "+joined(extractor.ProviderTypes()))
	set.StringVar(&f.ProviderVersion, "provider-version", "", "version of the provider, such as v2.10.0")
	set.StringVar(&f.OCPPlatform, "platform", "", "OpenShift `platform` of the provider, such as AWS (default every platform)")
	set.StringVar(&f.ImageName, "image-name", "", "placeholder for the provider's own image; required if the provider has pods")
	set.StringArrayVar(&f.images, "image", nil, "`old=new` image replacement; new is pinned by digest or is --image-name; may be repeated")
	set.StringVar(&f.Namespace, "namespace", v1alpha1.OperandNamespace, "target namespace of the provider")
	set.Var(&f.Profile, "profile", "kind of cluster that the bundle is for: "+strings.Join(extractor.ClusterProfileNames(), ", "))
	set.BoolVar(&f.KeepNamespaces, "keep-namespace", false, "objects stay in the namespaces of the provider; requires --profile kubernetes")
	set.StringSliceVar(&f.ProtectClusters, "protect-cluster-resource", nil, "singular `name` of a resource, such as awscluster, whose object of the management cluster is protected (default every InfraCluster); may be repeated")
	set.StringSliceVar(&f.OnlyTransforms, "transform", nil, "`name` of a transform to apply (default all); may be repeated")
	set.StringSliceVar(&f.SkipTransforms, "skip-transform", nil, "`name` of a transform to skip; may be repeated")
	cmd.Flags().AddFlagSet(set)
	f.complete(cmd)
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

// complete registers the known values for shell completion. The only error is an unknown flag.
func (f *providerFlags) complete(cmd *cobra.Command) {
	var types []string
	for _, providerType := range extractor.ProviderTypes() {
		types = append(types, string(providerType))
	}
	transforms := cobra.FixedCompletions(transformNames(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("provider-type", cobra.FixedCompletions(types, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("profile", cobra.FixedCompletions(extractor.ClusterProfileNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("transform", transforms)
	_ = cmd.RegisterFlagCompletionFunc("skip-transform", transforms)
	completePlatform(cmd)
}

// options returns the options for a kustomize directory.
func (f *providerFlags) options(cmd *cobra.Command, dir string) (generate.Options, error) {
	images, err := pairs("image", f.images)
	if err != nil {
		return generate.Options{}, err
	}
	options := f.Options
	options.Dir, options.ProviderType, options.Images = dir, extractor.ProviderType(f.providerType), images
	return options, nil
}

func completePlatform(cmd *cobra.Command) {
	var platforms []string
	for _, platform := range generate.Platforms() {
		platforms = append(platforms, string(platform))
	}
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions(platforms, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return strings.Join(texts, ", ")
}

func (f *generateFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.old.apply(cmd, &f.provider); err != nil {
		return err
	}
	if err := required(cmd, "provider-name", "provider-type", "provider-version", "output-dir"); err != nil {
		return err
	}
	if err := f.transport.check(cmd, f.provider.ImageName); err != nil {
		return err
	}
	options, err := f.provider.options(cmd, f.old.dir(args))
	if err != nil {
		return err
	}
	g, err := term.Interruptible(cmd.Context(), func() (generation, error) { return f.make(options) })
	if err != nil {
		return err
	}
	if f.compare != "" {
		return compareWith(cmd, f.compare, options.Dir, g.bundle)
	}
	written, err := f.write(cmd, g.bundle, g.release)
	if err != nil {
		return err
	}
	f.summarize(cmd.ErrOrStderr(), g, written)
	if f.format == asTable {
		return nil
	}
	return f.format.write(cmd.OutOrStdout(), generated{g.bundle.Metadata, g.summary, g.release.Dir, g.release.Notes}, nil)
}

// generation is the result of generate before it is written.
type generation struct {
	bundle  extractor.Bundle
	summary generate.Summary
	release clusterctl.Release
}

func (f *generateFlags) make(options generate.Options) (g generation, err error) {
	if g.bundle, g.summary, err = generate.Bundle(options); err == nil {
		g.release, err = f.clusterctl.release(options)
	}
	return g, generateError(err)
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

// generated is the output of generate.
type generated struct {
	Metadata extractor.Metadata `json:"metadata"`
	Summary  generate.Summary   `json:"summary"`
	// Clusterctl is the path of the clusterctl release in its repository;
	// ClusterctlNotes are notes about the release.
	Clusterctl      string   `json:"clusterctl,omitempty"`
	ClusterctlNotes []string `json:"clusterctlNotes,omitempty"`
}

// summarize writes the results of the transforms and the written files.
func (f *generateFlags) summarize(w io.Writer, g generation, written []string) {
	for _, result := range g.summary.Results {
		fmt.Fprintf(w, "%-28s  %s\n", result.Transform, outcome(result))
		if !f.verbose {
			continue
		}
		for _, part := range partsOf(result) {
			for _, object := range part.objects {
				fmt.Fprintf(w, "  %s %s\n", part.does, term.Printable(object))
			}
		}
	}
	for _, note := range slices.Concat(g.summary.Missing, g.release.Notes) {
		fmt.Fprintf(w, "note: %s\n", term.Printable(note))
	}
	fmt.Fprintf(w, "wrote %s: %d objects from %d, content ID %s\n",
		listed(written), g.summary.Written, g.summary.Read, g.bundle.Metadata.ContentID)
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

// pairs parses the key=value values of a flag.
func pairs(flag string, values []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, value := range values {
		key, text, found := strings.Cut(value, "=")
		if !found || key == "" {
			return nil, &usageError{fmt.Errorf("invalid --%s %q: want key=value", flag, value)}
		}
		if other, twice := pairs[key]; twice && other != text {
			return nil, &usageError{fmt.Errorf("duplicate --%s %s: %q and %q", flag, key, other, text)}
		}
		pairs[key] = text
	}
	return pairs, nil
}

// generateError marks errors in the content of a kustomize directory as invalid. It
// does not change errors of options and files.
func generateError(err error) error {
	if err == nil || isA[*transform.OptionsError](err) || isA[*fs.PathError](err) {
		return err
	}
	return &source.InvalidError{Err: err}
}
