// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

const diffLong = `Compare two releases, images or bundles, and show the changes from A to B by severity, to decide
whether B may replace A.

A and B are two releases, each an images.json, or two images, OCI layouts, archives or
directories with a bundle. A kustomize directory, or a YAML file such as the components.yaml
of a clusterctl release, is rendered as "validate" does; --provider-name, --provider-type,
--provider-version, --image-name and --image describe the provider on both sides. Of releases every provider is compared, or with --platform the
components that a cluster of that platform installs. Objects are compared field by field.
In addition, diff reports

  CRDs       whether existing objects stay valid and complete, and clients keep working
  RBAC       permissions that each role gains or loses, with the subjects of its bindings, and roles that subjects
             gain or lose; the roles that a role aggregates are compared by themselves
  webhooks   the requests that are sent to them, and the effect of a webhook that is down
  images     images from another registry or repository

Each change has a level: breaking, widening (a role gains permissions, or a subject a role), review, change,
or noise: another version of the same image, labels, descriptions of fields. Differences with one cause, such as a
removed field of a type that several CRDs have, are one change with its first places; --full shows all places.
Removed versions and gained permissions come first.

The exit code is 1 if anything differs. With --fail-on it is 1 only for changes of the
given levels.`

const diffExample = `  # Compare two releases
  capi-manifests diff old/images.json new/images.json

  # The same on AWS, for a pull request, and as a page for a reviewer
  capi-manifests diff old/images.json new/images.json --platform AWS -o markdown
  capi-manifests diff old/images.json new/images.json --platform AWS -o html > diff.html

  # A gate in CI: fail if CRDs become incompatible or permissions become wider
  capi-manifests diff quay.io/me/capa:v2.10.0 capi-manifests --fail-on breaking,widening

  # Compare two releases of a provider for clusterctl
  capi-manifests diff v2.10.0/infrastructure-components.yaml v2.11.0/infrastructure-components.yaml`

// failOnChoices are the values of --fail-on: any, or a list of the others.
var failOnChoices = []string{"any", "breaking", "widening"}

// fails reports whether changes lead to exit code 1.
func (o *diffOptions) fails(v diff.Counts) bool {
	return slices.ContainsFunc(o.failOn, func(choice string) bool {
		return v[diff.Level(choice)] > 0 || choice == "any" && v.Worst() != diff.None
	})
}

// diffOptions are the flags of diff.
type diffOptions struct {
	sources diffSourceFlags
	format  diffreport.Format
	failOn  []string
	full    bool
	color   term.ColorMode
}

func newDiff() *cobra.Command {
	options := diffOptions{}
	cmd := &cobra.Command{
		Use:     "diff A B",
		Short:   "Compare two releases, images or bundles",
		Long:    diffLong,
		Example: diffExample,
		Args:    cli.Args(2, 2, "the pair A B, two releases, images or bundles"),
		RunE:    func(cmd *cobra.Command, args []string) error { return options.run(cmd, args[0], args[1]) },
	}
	options.sources.register(cmd)
	flags := cmd.Flags()
	cli.RegisterFormat(cmd, &options.format, diffreport.Formats, "report")
	flags.StringSliceVar(&options.failOn, "fail-on", failOnChoices[:1], "`levels` for exit code 1: any, or breaking, widening, or both separated by a comma")
	flags.Lookup("fail-on").DefValue = failOnChoices[0] // without brackets
	flags.BoolVar(&options.full, "full", false, "show all places of a change")
	cli.RegisterColor(cmd, &options.color, "text")
	cli.CompleteFixed(cmd, "fail-on", append(failOnChoices, "breaking,widening")...)
	return cmd
}

func (o *diffOptions) run(cmd *cobra.Command, a, b string) error {
	for _, choice := range o.failOn {
		if !slices.Contains(failOnChoices, choice) || choice == "any" && len(o.failOn) > 1 {
			return cli.WrongUsage(fmt.Errorf("invalid argument %q for \"--fail-on\" flag: must be any, or breaking, widening, or both separated by a comma", strings.Join(o.failOn, ",")))
		}
	}
	before, after, err := o.sources.open(cmd, a, b)
	if err != nil {
		return err
	}
	found := diffreport.New(before.Source, after.Source, before.Providers, after.Providers)
	if err := writeDifferences(cmd, found, o.format, o.full, o.color); err != nil {
		return err
	}
	if o.fails(found.Verdict) {
		return &diffreport.DifferencesError{Verdict: found.Verdict}
	}
	return nil
}

// writeDifferences writes a report as a whole.
func writeDifferences(cmd *cobra.Command, report diffreport.Report, format diffreport.Format, full bool, color term.ColorMode) error {
	var out bytes.Buffer
	if err := report.Write(&out, format, full, color.Enabled(cmd.OutOrStdout())); err != nil {
		return err
	}
	_, err := out.WriteTo(cmd.OutOrStdout())
	return err
}

// compareWith writes the differences between the bundle in src and a generated one.
// Differences are an error.
func compareWith(cmd *cobra.Command, src, dir string, generated extractor.Bundle) error {
	bundle, err := source.OnlyBundle(cmd.Context(), cmd.ErrOrStderr(), src, "--compare")
	if err != nil {
		return err
	}
	before, errBefore := diffreport.Bundles(src, bundle)
	after, errAfter := diffreport.Bundles(dir, generated)
	if err := errors.Join(errBefore, errAfter); err != nil {
		return err
	}
	report := diffreport.New(src, dir, before.Providers, after.Providers)
	err = writeDifferences(cmd, report, diffreport.Text, true, "")
	if err == nil && report.Verdict.Worst() != diff.None {
		err = &diffreport.DifferencesError{Verdict: report.Verdict}
	}
	return err
}

// diffSourceFlags holds the flags for reading A and B.
type diffSourceFlags struct {
	platform  platformsFlag
	cacheDir  string
	allowTags bool
	settings  string
	variables []string
	provider  providerFlags
}

func (o *diffSourceFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.Var(&o.platform, "platform", "`platform` whose components of releases are compared, such as AWS; may be repeated, and contain commas (default every provider)")
	set.BoolVar(&o.allowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	set.StringArrayVar(&o.variables, "var", nil, "`name=value` of a variable in the manifests of releases; may be repeated")
	set.StringVar(&o.settings, "settings", "", "`file` with a ClusterAPI object or its spec, whose settings of components are applied to both releases; requires --platform")
	set.StringVar(&o.cacheDir, "cache-dir", "", "cache `directory` for the bundles of releases")
	cli.CompletePlatform(cmd)
	o.provider.registerNames(cmd)
	_ = cmd.MarkFlagDirname("cache-dir") // the flag exists
}

// open reads both sides. Either both are releases, or neither is.
func (o *diffSourceFlags) open(cmd *cobra.Command, a, b string) (before, after diffreport.Side, err error) {
	variables, err := cli.Pairs("var", o.variables)
	if err := cli.WrongUsage(o.platform.parse(), err); err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	isA, err := source.IsImagesJSON(a)
	isB, errB := source.IsImagesJSON(b)
	if err := errors.Join(err, errB); err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	for _, src := range []string{a, b} {
		if _, err := source.KindOf(src); src != "-" && err != nil {
			return diffreport.Side{}, diffreport.Side{}, err
		}
	}
	switch {
	case a == "-" && b == "-":
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(errors.New("stdin (-) can be used for only one of A and B"))
	case isA != isB:
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("cannot compare %s and %s: only one of them is a release (images.json)", a, b))
	}
	if !isA {
		for _, flag := range []string{"platform", "var", "allow-tags", "cache-dir", "settings"} {
			if cmd.Flags().Changed(flag) {
				return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("--%s is only valid for releases; %s and %s are not releases (images.json)", flag, a, b))
			}
		}
	}
	if given := o.provider.given(); len(given) > 0 && !isKustomize(a) && !isKustomize(b) {
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(fmt.Errorf("%s: only valid for kustomize directories and YAML files; neither %s nor %s is one", strings.Join(given, ", "), a, b))
	}
	if o.settings != "" && isA && len(o.platform.platforms) == 0 {
		return diffreport.Side{}, diffreport.Side{}, cli.WrongUsage(errors.New("--settings requires --platform: settings name the components of a cluster"))
	}
	settings, err := release.ReadSettings(o.settings)
	if err != nil {
		return diffreport.Side{}, diffreport.Side{}, err
	}
	open := func(src string) (diffreport.Side, error) { return o.openProvider(cmd, src) }
	if isA {
		open = func(src string) (diffreport.Side, error) {
			from := release.Source{File: src, AllowTags: o.allowTags, CacheDir: o.cacheDir, Settings: settings.Settings}
			return diffreport.Release(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), from, o.platform.platforms, variables)
		}
	}
	before, errA := open(a)
	after, errB = open(b)
	return before, after, errors.Join(errA, errB)
}

// isKustomize reports whether a source is rendered: a YAML file or a kustomize directory.
func isKustomize(src string) bool {
	return kustomize.IsManifests(src) || source.KustomizationIn(src) != "" && source.BundleIn(src) == ""
}

// openProvider reads a bundle, or renders a YAML file or a kustomize directory as validate does, with the flags that describe
// the provider.
func (o *diffSourceFlags) openProvider(cmd *cobra.Command, src string) (diffreport.Side, error) {
	if !isKustomize(src) {
		return diffreport.Read(cmd.Context(), cmd.ErrOrStderr(), src)
	}
	bundle, err := (&kustomizeFlags{o.provider}).render(cmd, src)
	if _, isOptions := errors.AsType[*transform.OptionsError](err); isOptions {
		err = fmt.Errorf("rendering %s: %w", src, err)
	}
	if err != nil {
		return diffreport.Side{}, err
	}
	return diffreport.Bundles(src, bundle)
}
