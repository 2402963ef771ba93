// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

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

The transforms, in the order in which they are applied:

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

  # Keep the provider's own resource limits, and see which objects the others change
  capi-manifests generate ./config ... --skip-transform resource-requests --verbose`

// generateFlags are the flags of generate.
type generateFlags struct {
	build.GenerateOptions
	providerType string
	images       []string
	outputDir    string
	verbose      bool
	transport    transportFlags
	format       output
}

func newGenerate() *cobra.Command {
	f := &generateFlags{}
	cmd := &cobra.Command{
		Use:     "generate DIR",
		Short:   "Make a bundle of a provider's kustomize directory",
		Long:    generateLong + transformHelp(),
		Example: generateExample,
		Args:    oneArg("DIR, the directory that holds the kustomization.yaml"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	set := cmd.Flags()
	set.StringVar(&f.ProviderName, "provider-name", "", "name of the provider, such as cluster-api-provider-aws")
	set.StringVar(&f.providerType, "provider-type", "", "what the provider is for: "+joined(extractor.ProviderTypes()))
	set.StringVar(&f.ProviderVersion, "provider-version", "", "version of the provider, such as v2.10.0")
	set.StringVar(&f.OCPPlatform, "platform", "", "OpenShift platform that the provider is for, such as AWS; without it every platform")
	set.StringVar(&f.ImageName, "image-name", "", "placeholder for the provider's own image; needed if anything runs")
	set.StringArrayVar(&f.images, "image", nil, "`old=new`: put the image new, by digest or the image name, in the place of old; can be repeated")
	set.StringVar(&f.Namespace, "namespace", v1alpha1.OperandNamespace, "namespace that the provider is installed in")
	set.StringSliceVar(&f.SkipTransforms, "skip-transform", nil, "name of a transform that is not applied; can be repeated")
	set.StringVar(&f.outputDir, "output-dir", "capi-manifests", "directory to write metadata.json and manifests.yaml to")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "name every object that a transform edits")
	f.transport.register(cmd)
	f.format.register(cmd)
	f.complete(cmd)
	return cmd
}

// complete has the shell complete the values that are known. Errors could only say that a flag does not exist.
func (f *generateFlags) complete(cmd *cobra.Command) {
	var types, names []string
	for _, providerType := range extractor.ProviderTypes() {
		types = append(types, string(providerType))
	}
	for _, transform := range build.Transforms() {
		names = append(names, transform.Name)
	}
	_ = cmd.RegisterFlagCompletionFunc("provider-type", cobra.FixedCompletions(types, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("skip-transform", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.MarkFlagDirname("output-dir")
	completePlatform(cmd)
}

func completePlatform(cmd *cobra.Command) {
	var platforms []string
	for _, platform := range build.Platforms() {
		platforms = append(platforms, string(platform))
	}
	_ = cmd.RegisterFlagCompletionFunc("platform", cobra.FixedCompletions(platforms, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

func transformHelp() string {
	var text strings.Builder
	for _, transform := range build.Transforms() {
		fmt.Fprintf(&text, "  %s\n      %s\n", transform.Name, transform.Does)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

func joined[T ~string](values []T) string {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = string(value)
	}
	return strings.Join(texts, ", ")
}

func (f *generateFlags) run(cmd *cobra.Command, dir string) error {
	if err := required(cmd, "provider-name", "provider-type", "provider-version", "output-dir"); err != nil {
		return err
	}
	if err := f.transport.check(cmd, f.ImageName); err != nil {
		return err
	}
	images, err := pairs(cmd, "image", f.images)
	if err != nil {
		return err
	}
	f.Dir, f.ProviderType, f.Images = dir, extractor.ProviderType(f.providerType), images
	bundle, summary, err := build.Generate(f.GenerateOptions)
	if err != nil {
		return generateError(err)
	}
	byName, err := f.transport.files(bundle)
	if err != nil {
		return err
	}
	if err := build.WriteFiles(cmd.Context(), f.outputDir, byName); err != nil {
		return err
	}
	f.summarize(cmd.ErrOrStderr(), bundle, summary, byName)
	if f.format == asTable {
		return nil
	}
	return f.format.write(cmd.OutOrStdout(), generated{metadataOf(bundle.Metadata), summary}, nil)
}

// generated is the data of generate.
type generated struct {
	Metadata metadata      `json:"metadata"`
	Summary  build.Summary `json:"summary"`
}

// summarize says what was done.
func (f *generateFlags) summarize(w io.Writer, bundle extractor.Bundle, summary build.Summary, files map[string][]byte) {
	for _, result := range summary.Results {
		fmt.Fprintf(w, "%-26s  %s\n", result.Transform, counts(result))
		if !f.verbose {
			continue
		}
		for _, part := range []struct {
			does    string
			objects []string
		}{{"changes", result.Changed}, {"drops", result.Dropped}, {"adds", result.Added}} {
			for _, object := range part.objects {
				fmt.Fprintf(w, "  %s %s\n", part.does, object)
			}
		}
	}
	for _, missing := range summary.Missing {
		fmt.Fprintf(w, "note: %s\n", missing)
	}
	var written []string
	for name := range files {
		written = append(written, filepath.Join(f.outputDir, name))
	}
	slices.Sort(written)
	fmt.Fprintf(w, "wrote %s: %d of %d objects, content ID %s\n",
		strings.Join(written, " and "), summary.Written, summary.Read, bundle.Metadata.ContentID)
}

func counts(result build.Result) string {
	var parts []string
	for _, part := range []struct {
		count int
		done  string
	}{{len(result.Changed), "changed"}, {len(result.Dropped), "dropped"}, {len(result.Added), "added"}} {
		if part.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", part.count, part.done))
		}
	}
	switch {
	case result.Skipped:
		return "skipped"
	case len(parts) == 0:
		return "nothing to do"
	}
	return strings.Join(parts, ", ")
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
