// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

const generateLong = `Generate renders a kustomize directory (as "kustomize build" does, without plugins
and helm), edits the objects for OpenShift, and writes the bundle: metadata.json
and manifests.yaml. The same input gives the same bytes, everywhere and always.

Variables such as ${LOGLEVEL:=0} stay for the cluster. Images have to be named by
digest, but for the provider's own, in whose place the placeholder --image-name is
put; a cluster puts the image that the bundle comes from there.

The transforms, in the order in which they are applied ("capi-manifests transforms"
tells why each is there; --transform and --skip-transform choose):

`

const generateExample = `  # The provider's own image is that of the container named manager
  capi-manifests generate ./config/default --output-dir capi-manifests \
    --provider-name cluster-api-provider-aws --provider-type infrastructure \
    --provider-version v2.10.0 --platform AWS \
    --image-name registry.ci.openshift.org/openshift:aws-cluster-api-controllers

  # A sidecar's image has to be given by digest
  capi-manifests generate ./config ... --image gcr.io/kube-rbac-proxy:v0.16=quay.io/openshift/proxy@sha256:…

  # ConfigMaps for a release that does not take manifests out of images yet
  capi-manifests generate ./config ... --image-name quay.io/openshift/capa@sha256:… \
    --transport configmap --release-version 4.22.3 --output-dir manifests

  # The same provider for clusterctl, as "infrastructure-aws/v2.10.0" in a local repository
  capi-manifests generate ./config/default ... --clusterctl-dir repository --clusterctl-metadata metadata.yaml

  # Keep the provider's own resource limits, and see which objects the others change
  capi-manifests generate ./config ... --skip-transform resource-requests --verbose`

// generateFlags are the flags of generate.
type generateFlags struct {
	provider   providerFlags
	old        manifestsGenFlags
	clusterctl clusterctlFlags
	outputDir  string
	verbose    bool
	transport  transportFlags
	format     output
}

func newGenerate() *cobra.Command {
	f := &generateFlags{}
	cmd := &cobra.Command{
		Use:     "generate DIR",
		Short:   "Make a bundle of a provider's kustomize directory",
		Long:    generateLong + transformHelp() + manifestsGenHelp,
		Example: generateExample,
		Args:    f.old.args,
		RunE:    f.run,
	}
	f.provider.register(cmd)
	set := cmd.Flags()
	set.StringVar(&f.outputDir, "output-dir", "capi-manifests", "directory to write metadata.json and manifests.yaml to")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "name every object that a transform edits")
	f.transport.register(cmd)
	f.old.register(cmd, &f.provider)
	f.clusterctl.register(cmd)
	f.format.register(cmd)
	_ = cmd.MarkFlagDirname("output-dir") // the flag exists
	return cmd
}

// providerFlags say which provider a kustomize directory is of, and how it is edited.
type providerFlags struct {
	build.GenerateOptions
	providerType string
	images       []string
	set          *pflag.FlagSet
}

func (f *providerFlags) register(cmd *cobra.Command) {
	f.set = pflag.NewFlagSet("provider", pflag.ContinueOnError)
	set := f.set
	set.StringVar(&f.ProviderName, "provider-name", "", "name of the provider, such as cluster-api-provider-aws")
	set.StringVar(&f.providerType, "provider-type", "", "what the provider is for: "+joined(extractor.ProviderTypes()))
	set.StringVar(&f.ProviderVersion, "provider-version", "", "version of the provider, such as v2.10.0")
	set.StringVar(&f.OCPPlatform, "platform", "", "OpenShift platform that the provider is for, such as AWS; without it every platform")
	set.StringVar(&f.ImageName, "image-name", "", "placeholder for the provider's own image; needed if anything runs")
	set.StringArrayVar(&f.images, "image", nil, "`old=new`: put the image new, by digest or the image name, in the place of old; can be repeated")
	set.StringVar(&f.Namespace, "namespace", v1alpha1.OperandNamespace, "namespace that the provider is installed in")
	set.StringSliceVar(&f.ProtectClusters, "protect-cluster-resource", nil, "singular `name` of the resource, such as awscluster, of which the cluster's own object is protected; without it every InfraCluster; can be repeated")
	set.StringSliceVar(&f.OnlyTransforms, "transform", nil, "`name` of a transform that is applied; without it all of them; can be repeated")
	set.StringSliceVar(&f.SkipTransforms, "skip-transform", nil, "`name` of a transform that is not applied; can be repeated")
	cmd.Flags().AddFlagSet(set)
	f.complete(cmd)
}

// given are the flags that the command line has, such as "--platform".
func (f *providerFlags) given() (names []string) {
	f.set.VisitAll(func(flag *pflag.Flag) {
		if flag.Changed {
			names = append(names, "--"+flag.Name)
		}
	})
	return names
}

// complete has the shell complete the values that are known. Errors could only say that a flag does not exist.
func (f *providerFlags) complete(cmd *cobra.Command) {
	var types []string
	for _, providerType := range extractor.ProviderTypes() {
		types = append(types, string(providerType))
	}
	transforms := cobra.FixedCompletions(transformNames(), cobra.ShellCompDirectiveNoFileComp)
	_ = cmd.RegisterFlagCompletionFunc("provider-type", cobra.FixedCompletions(types, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("transform", transforms)
	_ = cmd.RegisterFlagCompletionFunc("skip-transform", transforms)
	completePlatform(cmd)
}

// options are those for a kustomize directory.
func (f *providerFlags) options(cmd *cobra.Command, dir string) (build.GenerateOptions, error) {
	images, err := pairs(cmd, "image", f.images)
	if err != nil {
		return build.GenerateOptions{}, err
	}
	options := f.GenerateOptions
	options.Dir, options.ProviderType, options.Images = dir, extractor.ProviderType(f.providerType), images
	return options, nil
}

func completePlatform(cmd *cobra.Command) {
	var platforms []string
	for _, platform := range build.Platforms() {
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
	made, err := interruptible(cmd.Context(), func() (made, error) { return f.make(options) })
	if err != nil {
		return err
	}
	written, err := f.write(cmd, made.bundle, made.release)
	if err != nil {
		return err
	}
	f.summarize(cmd.ErrOrStderr(), made, written)
	if f.format == asTable {
		return nil
	}
	return f.format.write(cmd.OutOrStdout(), generated{metadataOf(made.bundle.Metadata), made.summary, made.release.Dir, made.release.Notes}, nil)
}

// made is what generate makes of a kustomize directory, before it is written.
type made struct {
	bundle  extractor.Bundle
	summary build.Summary
	release build.ClusterctlRelease
}

func (f *generateFlags) make(options build.GenerateOptions) (m made, err error) {
	if m.bundle, m.summary, err = build.Generate(options); err == nil {
		m.release, err = f.clusterctl.release(options)
	}
	return m, generateError(err)
}

// write writes the bundle in the layouts that are asked for, and returns the files, sorted.
func (f *generateFlags) write(cmd *cobra.Command, bundle extractor.Bundle, release build.ClusterctlRelease) ([]string, error) {
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
		files, err := f.old.files(bundle)
		if err != nil {
			return nil, err
		}
		add(filepath.Join(f.old.manifestsPath, f.old.profile), files)
	}
	if f.old.manifestsPath == "" || cmd.Flag("output-dir").Changed {
		files, err := f.transport.files(bundle)
		if err != nil {
			return nil, err
		}
		add(f.outputDir, files)
	}
	if err := build.WriteDirs(cmd.Context(), dirs); err != nil {
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

// generated is the data of generate.
type generated struct {
	Metadata metadata      `json:"metadata"`
	Summary  build.Summary `json:"summary"`
	// Clusterctl is where the release for clusterctl is in its repository, and ClusterctlNotes what is noted about it.
	Clusterctl      string   `json:"clusterctl,omitempty"`
	ClusterctlNotes []string `json:"clusterctlNotes,omitempty"`
}

// summarize says what was done.
func (f *generateFlags) summarize(w io.Writer, made made, written []string) {
	for _, result := range made.summary.Results {
		fmt.Fprintf(w, "%-26s  %s\n", result.Transform, outcome(result))
		if !f.verbose {
			continue
		}
		for _, part := range partsOf(result) {
			for _, object := range part.objects {
				fmt.Fprintf(w, "  %s %s\n", part.does, printable(object))
			}
		}
	}
	for _, note := range slices.Concat(made.summary.Missing, made.release.Notes) {
		fmt.Fprintf(w, "note: %s\n", printable(note))
	}
	fmt.Fprintf(w, "wrote %s: %d objects from %d, content ID %s\n",
		listed(written), made.summary.Written, made.summary.Read, made.bundle.Metadata.ContentID)
}

// listed is "a", "a and b" or "a, b and c".
func listed(texts []string) string {
	if len(texts) < 2 {
		return strings.Join(texts, "")
	}
	last := len(texts) - 1
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}

// part is one of the things that a transform does.
type part struct {
	does, done string
	objects    []string
}

func partsOf(result build.Result) []part {
	return []part{{"changes", "changed", result.Changed}, {"drops", "dropped", result.Dropped}, {"adds", "added", result.Added}}
}

// outcome is one line about a transform: "2 changed (CustomResourceDefinition, Service), 1 dropped (Namespace)".
func outcome(result build.Result) string {
	var texts []string
	for _, part := range partsOf(result) {
		if len(part.objects) > 0 {
			texts = append(texts, fmt.Sprintf("%d %s (%s)", len(part.objects), part.done, printable(kindsOf(part.objects))))
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

// kindsOf are the kinds of objects such as "Service capi-system/webhook", with their numbers: "2 Service, Role".
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

// pairs reads the values of a flag that are key=value.
func pairs(cmd *cobra.Command, flag string, values []string) (map[string]string, error) {
	pairs := map[string]string{}
	for _, value := range values {
		key, text, found := strings.Cut(value, "=")
		if !found || key == "" {
			return nil, &usageError{cmd.CommandPath(), fmt.Errorf("--%s %q is not of the form key=value", flag, value)}
		}
		if other, twice := pairs[key]; twice && other != text {
			return nil, &usageError{cmd.CommandPath(), fmt.Errorf("--%s gives %s twice: %q and %q", flag, key, other, text)}
		}
		pairs[key] = text
	}
	return pairs, nil
}
