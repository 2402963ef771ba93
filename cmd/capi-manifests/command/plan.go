// SPDX-License-Identifier: Apache-2.0

package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/rbac"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/planreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

const planLong = `Pull the images of a release and show the components that capi-installer would install on a
cluster. Plan runs the same code with the same checks, and writes nothing.

It shows the components in install order with their content, the phases that apply
their objects, and the images that are not installed with the reason. The content ID is the one in the
status of the ClusterAPI object. Settings of the cluster are given by flags, or with --against are those of its ClusterAPI object:
image overrides with --image, unmanaged CRDs with --unmanaged-crd, variables with --var, the others with --settings. TLS_MIN_VERSION,
TLS_CIPHER_SUITES and the variables of a proxy have the values of a cluster without own settings.

It lists the permissions that the installer lacks to install and remove the objects, with the shipped
roles; "capi-manifests rbac" writes them. With --objects the rendered objects are written, in install order.

With --against, the installation in a cluster is previewed with dry runs of the installer's writes. Installed objects that the
release lacks come first: they would be removed, or, as CRDs with instances, retained. Each object of the release would be created,
changed (with the fields, and whether pods restart), kept, adopted from cluster-capi-operator, or rejected. Objects of that
operator that would stay are listed too, and the permissions that the installer lacks with the roles of the cluster. Without the permission
patch, fields are compared instead. The findings of the installer's own preflight follow: objects of other owners, immutable fields, stored
versions, and the risks that spec.acceptedRisks can accept, such as breaking changes of CRDs with instances; and notes about the way back.
The exit code is 1 if the installation would stop.

With --signature-policy the verdict of the policy on each image is shown, and an image that it does not accept is an error: such a
cluster does not install it. Without the flag the verdicts of this machine's policy are shown only.`

const planExample = `  # Show components and phases on AWS
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0

  # Compare with the objects of a cluster
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 --objects -o yaml | kubectl diff -f -

  # Write a page for reviewers; --against KUBECONFIG adds what changes in a cluster
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 -o html > plan.html

  # Override the image of a provider, set a variable, and cache the bundles
  capi-manifests plan --images-json images.json --platform AWS --release-version 4.22.0 \
    --image aws-cluster-api-controllers=quay.io/me/capa:bundled --var CAPA_LOGLEVEL=4 --cache-dir ~/.cache/capi-manifests`

// planFlags are the flags of plan.
type planFlags struct {
	imagesJSON, release, cacheDir                        string
	settings                                             string
	ignored                                              []v1alpha1.IgnoredFields // of settings
	platform                                             platformsFlag
	allowTags, objects                                   bool
	cluster                                              string
	installed                                            *planreport.Installed // in cluster; nil without --against
	variables, unmanaged, overrides, providersNamespaces []string
	components                                           []v1alpha1.ComponentSettings // of settings
	signatures                                           signatureFlags
	format                                               cli.Output
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
	f.registerImages(cmd)
	cmd.Flags().StringVar(&f.release, "release-version", "", "`version` of the release, such as 4.22.0")
	f.format.Register(cmd, string(cli.HTML))
	cmd.Flags().StringVar(&f.cluster, "against", "", "`kubeconfig` of a cluster to compare with; nothing is written")
	f.signatures.register(cmd, "whose verdicts on the images are shown; if it is given, an image that it does not accept is an error")
	cmd.Flags().BoolVar(&f.objects, "objects", false, "rendered objects only: YAML documents with -o yaml, a List with -o json")
	return cmd
}

// onlyFlags is cli.NoArgs with a suggestion to use --images-json.
func onlyFlags(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return cli.WrongUsage(fmt.Errorf("accepts no arguments, received %s; did you mean --images-json %[1]s?", args[0]))
	}
	return cli.NoArgs(cmd, args)
}

// registerImages adds the flags for the images of a release, and for its cluster.
func (f *planFlags) registerImages(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.imagesJSON, "images-json", "", "`file` with the images of the release; - is stdin")
	set.Var(&f.platform, "platform", "`platform` of the cluster, such as AWS; several, separated by commas or in repeated flags, for a cluster without OpenShift")
	set.BoolVar(&f.allowTags, "allow-tags", false, "accept tags in images.json and resolve them; a cluster rejects tags")
	set.StringArrayVar(&f.variables, "var", nil, "`name=value` of a variable in the manifests; may be repeated")
	set.StringSliceVar(&f.unmanaged, "unmanaged-crd", nil, "`name` of an unmanaged CRD, as in spec.unmanagedCRDs; may be repeated")
	set.StringVar(&f.settings, "settings", "", "`file` with a ClusterAPI object or its spec, which is applied")
	set.StringSliceVar(&f.providersNamespaces, "providers-namespace", nil, "`namespace` of providers, as in the arguments of the installer: first the default one; may be repeated (default the one of the bundles and those in the settings)")
	set.StringVar(&f.cacheDir, "cache-dir", "", "cache `directory` for bundles")
	set.StringArrayVar(&f.overrides, "image", nil, "`name=image` override or addition to images.json, as in spec.imageOverrides; tags are resolved; may be repeated")
	cli.CompletePlatform(cmd)
	_ = cmd.MarkFlagFilename("images-json", "json") // the flags exist
	_ = cmd.MarkFlagDirname("cache-dir")
}

func (f *planFlags) run(cmd *cobra.Command) error {
	policy, err := f.signatures.load(cmd)
	if err != nil {
		return err
	}
	if f.cluster != "" {
		if _, err := f.check(cmd); err != nil {
			return err
		}
		if err := f.open(cmd); err != nil {
			return err
		}
	}
	name, number, set, results, err := f.render(cmd)
	if err != nil {
		return err
	}
	phases, err := revision.Phases(name, number, set, f.unmanaged)
	if err != nil {
		return err
	}
	signatures, err := policy.OfImages(cmd.Context(), imagesOf(results))
	if err != nil {
		return err
	}
	if err := f.write(cmd, set, phases, results, signatures); err != nil {
		return err
	}
	return policy.Blocked(signatures)
}

// imagesOf returns the images of results.
func imagesOf(results []extractor.Result) (images imagesjson.Images) {
	for _, result := range results {
		images = append(images, result.Image)
	}
	return images
}

// clusterProfileOf returns the kind of cluster of the bundles in results.
func clusterProfileOf(results []extractor.Result) extractor.ClusterProfile {
	for _, result := range results {
		for _, bundle := range result.Bundles {
			if bundle.Metadata.ClusterProfile != extractor.OpenShift {
				return bundle.Metadata.ClusterProfile
			}
		}
	}
	return extractor.OpenShift
}

// write writes the report, or the objects.
func (f *planFlags) write(cmd *cobra.Command, set operand.Set, phases []revision.Phase, results []extractor.Result, signatures []verdict.Image) error {
	if f.objects {
		if f.format == cli.JSON {
			return f.format.Write(cmd.OutOrStdout(), planreport.List(phases), nil)
		}
		return planreport.WriteObjects(cmd.OutOrStdout(), phases)
	}
	p := planreport.New(f.release, f.platform.platforms, set, phases, results)
	p.Signatures, p.IgnoredFields = signatures, planreport.IgnoredFields(f.ignored, phases)
	var err error
	if f.cluster != "" {
		err = f.compare(cmd, &p, set, clusterProfileOf(results))
	} else {
		p.MissingPermissions, err = f.missingInShippedRoles(phases, clusterProfileOf(results))
	}
	if err != nil {
		return err
	}
	if err := f.format.Write(cmd.OutOrStdout(), p, p.Table, p.HTML); err != nil {
		return err
	}
	return p.Blocked()
}

// missingInShippedRoles returns the rules for the phases that the shipped roles lack.
func (f *planFlags) missingInShippedRoles(phases []revision.Phase, profile extractor.ClusterProfile) ([]rbac.Rule, error) {
	roles, err := shippedObjects(profile)
	if err != nil {
		return nil, err
	}
	namespaces := planreport.Namespaces(profile, f.providersNamespaces, f.components)
	return planreport.MissingInShipped(phases, f.unmanaged, roles, namespaces, profile)
}

// open reads the cluster of --against.
func (f *planFlags) open(cmd *cobra.Command) error {
	cluster, err := apiserver.Open(cmd.Context(), f.cluster, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	f.installed, err = planreport.ReadInstalled(cmd.Context(), cluster)
	return err
}

// compare adds the effects of a set on the cluster of --against to a report, and the permissions that the installer lacks there.
func (f *planFlags) compare(cmd *cobra.Command, p *planreport.Report, set operand.Set, profile extractor.ClusterProfile) error {
	namespaces := planreport.Namespaces(profile, f.providersNamespaces, f.components)
	namespaces.Operator = cmp.Or(f.installed.Namespace, namespaces.Operator)
	f.installed.Namespace, f.installed.Ignored = namespaces.Operator, f.ignored
	set, err := f.installed.Reveal(cmd.Context(), set, f.components)
	if err != nil {
		cli.Report(cmd.ErrOrStderr(), fmt.Errorf("not comparing values of Secrets: %w", err))
	}
	name, number, err := revision.Next(nil, f.release)
	if err != nil {
		return err
	}
	phases, err := revision.Phases(name, number, set, f.unmanaged)
	if err != nil {
		return err
	}
	if err := p.Compare(cmd.Context(), f.installed, set, phases, f.unmanaged); err != nil {
		return err
	}
	roles, err := f.installed.Roles(cmd.Context())
	if err != nil {
		cli.Report(cmd.ErrOrStderr(), fmt.Errorf("not comparing the installer's permissions: %w", err))
		return nil
	}
	p.MissingPermissions, err = planreport.MissingPermissions(phases, f.unmanaged, roles, namespaces)
	return err
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
		release.NoteUnused(cmd.ErrOrStderr(), f.unmanaged, f.ignored, variables, set)
	}
	return name, number, set, results, err
}

// renderRelease returns the components of the cluster, and the bundles of all images of the release. Flags take precedence over the spec
// in the file of --settings or else in the cluster of --against.
func (f *planFlags) renderRelease(cmd *cobra.Command, variables map[string]string) (operand.Set, []extractor.Result, error) {
	settings, err := release.ReadSettings(f.settings)
	if err != nil {
		return operand.Set{}, nil, err
	}
	if f.installed != nil && f.settings == "" {
		settings = release.SettingsOf(f.installed.ClusterAPI.Spec)
	}
	if f.installed != nil {
		settings.Values = func(secret string) map[string][]byte { return f.installed.Values(cmd.Context(), secret) }
	}
	f.ignored, f.components, settings.Namespaces = settings.Spec.DriftPolicy.IgnoredFields, settings.Components, f.providersNamespaces
	if len(f.unmanaged) == 0 {
		f.unmanaged = settings.Spec.UnmanagedCRDs
	}
	if len(f.overrides) == 0 {
		for _, override := range settings.Spec.ImageOverrides {
			f.overrides = append(f.overrides, override.Name+"="+string(override.Image))
		}
	}
	from := release.Source{File: f.imagesJSON, AllowTags: f.allowTags, Overrides: f.overrides, CacheDir: f.cacheDir, Settings: settings.Settings}
	return from.Render(cmd.Context(), cmd.InOrStdin(), cmd.ErrOrStderr(), f.platform.platforms, variables)
}

// check checks the flags, and returns the variables.
func (f *planFlags) check(cmd *cobra.Command) (map[string]string, error) {
	variables, err := cli.Pairs("var", f.variables)
	errs := []error{cli.Required(cmd, "images-json", "platform", "release-version"), f.platform.parse(), err}
	if f.release != "" {
		_, _, err := revision.Next(nil, f.release)
		errs = append(errs, err)
	}
	if f.objects && f.format != cli.JSON && f.format != cli.YAML {
		errs = append(errs, errors.New("--objects requires -o yaml or -o json"))
	}
	return variables, cli.WrongUsage(errs...)
}

// platformsFlag is the flag --platform with the platforms of a cluster.
type platformsFlag struct {
	text      string
	platforms operand.Platforms // of text
}

// Set implements pflag.Value: repeated flags add platforms.
func (p *platformsFlag) Set(text string) error {
	p.text = strings.TrimPrefix(p.text+","+text, ",")
	return nil
}

// String implements pflag.Value.
func (p *platformsFlag) String() string { return p.text }

// Type implements pflag.Value.
func (p *platformsFlag) Type() string { return "platform" }

// parse parses the flag. A platform of OpenShift in another case is an error, because no
// provider matches it.
func (p *platformsFlag) parse() error {
	platforms, err := operand.ParsePlatforms(p.text)
	if err != nil {
		return fmt.Errorf("invalid --platform: %w", err)
	}
	for _, platform := range platforms {
		for _, known := range contract.Platforms {
			if name := string(known); name != platform && strings.EqualFold(name, platform) {
				return fmt.Errorf("invalid --platform %q: want %s (case-sensitive)", platform, name)
			}
		}
	}
	p.platforms = platforms
	return nil
}
