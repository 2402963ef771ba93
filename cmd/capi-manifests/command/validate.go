// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/release"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
)

// waivers reads the config file and the baseline. Settings of the config file apply
// to flags that are not on the command line.
func (o *validateOptions) waivers(cmd *cobra.Command) (*findings.Waivers, error) {
	settings, err := findings.ReadConfig(o.configFile)
	if err != nil {
		return nil, err
	}
	for name, value := range map[string]string{"severity": settings.Validate.Severity, "output": settings.Validate.Output} {
		if flag := cmd.Flag(name); value != "" && !flag.Changed {
			if err := flag.Value.Set(value); err != nil {
				return nil, &findings.ConfigError{File: findings.ConfigPath(o.configFile), Err: fmt.Errorf("validate.%s: %w", name, err)}
			}
		}
	}
	accepted := &findings.Waivers{}
	for i := range settings.Validate.Waivers {
		w := &settings.Validate.Waivers[i]
		w.Expired = time.Now().Format(time.DateOnly) > w.Expires
		accepted.Waivers = append(accepted.Waivers, w)
	}
	if o.baseline == "" && settings.Validate.Baseline != "" {
		o.baseline = filepath.Join(filepath.Dir(o.configFile), settings.Validate.Baseline)
	}
	if o.baseline != "" && o.write == "" {
		accepted.Baseline, err = findings.ReadBaseline(o.baseline)
	}
	return accepted, err
}

const validateLong = `Check bundles against the rules for providers: requirements of the installer, the contracts of clusterctl and Cluster API, and
OpenShift's conventions for workloads. "capi-manifests explain" lists the rules with reason and fix.

SOURCE is an image, an OCI layout, an archive, or a directory: a bundle, a kustomize directory (or its kustomization.yaml), checked as "generate" would render it,
or a clusterctl release or repository, whose components, metadata.yaml and templates are checked with any value of the variables.
Findings name line and field; severity error leads to exit code 1. A bundle that the installer cannot read leads to exit code 4.

With --against the API server of a kubeconfig also checks the objects, and the objects of templates, in dry runs: whether it accepts each object,
compiles admission policies, and admits the pods of workloads. In a cluster with Cluster API's providers, their webhooks judge the
objects. CRDs are not established, and objects of kinds that the cluster does not serve are not checked (rule server/not-checked).

With a baseline only new findings are reported. The config file .capi-manifests.yaml waives intended findings, with a reason and an expiry date:

  validate:
    severity: warning
    baseline: baseline.json
    waivers:
    - rule: bundle/pod-security
      object: Deployment openshift-cluster-api/manager   # default: all objects
      reason: the manager reads a directory of the node
      expires: 2027-06-30`

const validateExample = `  # Check the output of generate, a kustomize directory, or a clusterctl repository
  capi-manifests validate capi-manifests
  capi-manifests validate config/default --platform AWS
  capi-manifests validate repository --against ~/.kube/config

  # Write a report for code scanning
  capi-manifests validate capi-manifests -o sarif > findings.sarif

  # Accept existing findings, and report only new ones
  capi-manifests validate capi-manifests --write-baseline baseline.json
  capi-manifests validate capi-manifests --baseline baseline.json`

// validateOptions are the flags of validate.
type validateOptions struct {
	version    string
	format     findings.Format
	least      contract.Severity
	color      term.ColorMode
	configFile string
	baseline   string
	write      string
	kustomize  kustomizeFlags
	against    string
	settings   string
}

func newValidate(version string) *cobra.Command {
	options := validateOptions{version: version, least: contract.Info}
	cmd := &cobra.Command{
		Use:     "validate SOURCE",
		Short:   "Validate a bundle against the provider rules",
		Long:    validateLong,
		Example: validateExample,
		Args:    cli.OneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		RunE:    func(cmd *cobra.Command, args []string) error { return options.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	cli.RegisterFormat(cmd, &options.format, findings.Formats, "findings")
	cli.RegisterSeverity(cmd, &options.least)
	cli.RegisterColor(cmd, &options.color, "findings")
	flags.StringVar(&options.configFile, "config", "", "config `file` with settings and waivers (default "+findings.DefaultConfig+" if it exists)")
	flags.StringVar(&options.baseline, "baseline", "", "`file` with accepted findings")
	options.kustomize.provider.register(cmd)
	flags.StringVar(&options.against, "against", "", "`kubeconfig` of an API server that checks the objects in dry runs")
	flags.StringVar(&options.settings, "settings", "", "`file` with a ClusterAPI object or its spec: check whether the settings of the provider apply to the bundle")
	flags.StringVar(&options.write, "write-baseline", "", "output `file` for the findings, for use with --baseline; the exit code is 0")
	return cmd
}

func (o *validateOptions) run(cmd *cobra.Command, src string) error {
	accepted, err := o.waivers(cmd)
	if err != nil {
		return err
	}
	result, err := o.validate(cmd, src)
	if err != nil {
		return err
	}
	src = result.Source
	if result.Invalid {
		return o.report(cmd, result)
	}
	if o.write != "" {
		if err := findings.WriteBaseline(o.write, result); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: wrote baseline %s: %s\n", term.Printable(src), o.write, findings.Summary(result.Counts, result.CheckedRules(o.against != "")))
		return nil
	}
	result.Accept(accepted)
	for _, problem := range accepted.Problems() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", term.Printable(problem))
	}
	return o.report(cmd, result)
}

// report writes the findings, and returns an error if one has severity error.
func (o *validateOptions) report(cmd *cobra.Command, result findings.Report) error {
	result.ToolVersion = o.version
	result.DropBelow(o.least)
	if _, err := cmd.OutOrStdout().Write(result.Write(o.format, o.color.Enabled(cmd.OutOrStdout()))); err != nil {
		return err
	}
	switch err := (&findings.Error{Source: result.Source, Counts: result.Counts}); {
	case result.Invalid:
		return &source.InvalidError{Err: err}
	case result.Counts[contract.Error] > 0:
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s%s\n", term.Printable(result.Source), findings.Summary(result.Counts, result.CheckedRules(o.against != "")), findings.AcceptedNote(result.Accepted))
	return nil
}

// validate checks a source against the rules and, with --against, against an API
// server.
func (o *validateOptions) validate(cmd *cobra.Command, src string) (findings.Report, error) {
	settings, err := release.ReadSettings(o.settings)
	if err != nil {
		return findings.Report{}, err
	}
	if releases := source.ClusterctlReleases(src); len(releases) > 0 {
		if err := o.onReleases(src); err != nil {
			return findings.Report{}, err
		}
		result, err := findings.CheckReleases(src, releases)
		if err != nil {
			return findings.Report{}, err
		}
		return result, o.askServer(cmd, &result, nil)
	}
	file, src := kustomization(cmd.ErrOrStderr(), src)
	bundles, src, err := o.bundles(cmd, src, file)
	if list, all := rules.Unreadable(err); all && file == "" {
		return findings.Unreadable(src, list), nil
	}
	if err != nil {
		return findings.Report{}, err
	}
	if err := release.CheckSettings(settings, o.settings, src, bundles, cmd.ErrOrStderr()); err != nil {
		return findings.Report{}, err
	}
	result := findings.Check(src, bundles)
	if err := o.askServer(cmd, &result, bundles); err != nil {
		return findings.Report{}, err
	}
	if file != "" && result.Found() {
		files, err := source.FilesOf(src)
		if err != nil {
			return findings.Report{}, err
		}
		result.AttributeTo(file, bundles[0].Manifests, files)
	}
	return result, nil
}

// filesOf returns the files that may define a field of an object.
type filesOf = func(kind, name string) []string

// bundles reads the bundles of src. If file is not empty, src is a kustomize
// directory and is rendered.
func (o *validateOptions) bundles(cmd *cobra.Command, src, file string) ([]extractor.Bundle, string, error) {
	if given := o.kustomize.provider.given(); file == "" && len(given) > 0 {
		return nil, src, cli.WrongUsage(onlyForKustomize(given, src))
	}
	if file == "" {
		return source.Bundles(cmd.Context(), cmd.ErrOrStderr(), src)
	}
	bundle, err := o.kustomize.render(cmd, src)
	return []extractor.Bundle{bundle}, src, err
}

// onlyForKustomize returns an error for flags that do not apply to a source.
func onlyForKustomize(flags []string, src string) error {
	return fmt.Errorf("%s: only valid for a kustomize directory; %s is not one", strings.Join(flags, ", "), src)
}

// onReleases rejects flags that do not apply to clusterctl releases.
func (o *validateOptions) onReleases(src string) error {
	var errs []error
	if given := o.kustomize.provider.given(); len(given) > 0 {
		errs = append(errs, onlyForKustomize(given, src))
	}
	if o.settings != "" {
		errs = append(errs, fmt.Errorf("--settings: only valid for bundles; %s contains clusterctl releases", src))
	}
	if err := errors.Join(errs...); err != nil {
		return cli.WrongUsage(err)
	}
	return nil
}

// kustomizeFlags holds the flags of generate, for a kustomize directory that is
// validated as if it were generated.
type kustomizeFlags struct{ provider providerFlags }

// kustomization returns the kustomization.yaml of src and its directory if src is a kustomize directory or the kustomization.yaml itself,
// or src itself twice if it is another file with manifests. The file is empty for a bundle, also for one beside a kustomization.
func kustomization(stderr io.Writer, src string) (file, dir string) {
	if dir := filepath.Dir(src); filepath.Clean(src) == kustomize.FileIn(dir) {
		return src, dir
	}
	if kustomize.IsManifests(src) {
		return src, src
	}
	file, bundle := source.KustomizationIn(src), source.BundleIn(src)
	if file == "" || bundle == "" {
		return file, src
	}
	fmt.Fprintf(stderr, "note: %s has both a bundle (%s) and a %[3]s; validating the bundle: name the %[3]s to validate the other\n", term.Printable(src), bundle, filepath.Base(file))
	return "", src
}

// render renders the directory as generate does.
func (f *kustomizeFlags) render(cmd *cobra.Command, src string) (extractor.Bundle, error) {
	options, err := f.provider.options(src)
	if err != nil {
		return extractor.Bundle{}, err
	}
	bundle, notes, err := generate.Preview(options)
	if err != nil {
		return extractor.Bundle{}, inputError(err)
	}
	for _, note := range notes {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: skipped, because generate would fail: %s\n", term.Printable(src), term.Printable(note.Error()))
	}
	m := bundle.Metadata
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: rendered as by \"capi-manifests generate %[1]s --provider-name %s --provider-type %s --provider-version %s%s\"\n",
		term.Printable(src), m.ProviderName, m.ProviderType, m.ProviderVersion, term.Optional(" --profile ", string(m.ClusterProfile))+term.Optional(" --platform ", m.OCPPlatform)+term.Optional(" --image-name ", m.ImageName))
	return bundle, nil
}

// askServer adds the findings of the API server of --against about bundles, or about the templates of the releases of the result.
func (o *validateOptions) askServer(cmd *cobra.Command, result *findings.Report, bundles []extractor.Bundle) error {
	if o.against == "" || result.Invalid {
		return nil
	}
	server, err := apiserver.Open(cmd.Context(), o.against, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if bundles == nil {
		return result.AskServerAboutReleases(cmd.Context(), server)
	}
	return result.AskServer(cmd.Context(), bundles, server)
}
