// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

const validateLong = `Validate checks the bundles of an image against the rules that providers have to
keep: what the installer asks of a bundle, what clusterctl and Cluster API ask of a
provider, and OpenShift's conventions for what runs on it. "capi-manifests explain"
lists the rules, and tells why each is there and how to keep it.

SOURCE is an image, an OCI layout, an archive, or a directory: of a bundle, of kustomize, or
of clusterctl. Of kustomize's is checked what "generate" would make of it, and with the flags
of "generate"; what they do not say is read off the objects. Of clusterctl's, a release or a
repository of them as "generate --clusterctl-dir" writes one, are checked the components,
metadata.yaml and templates, by the rules about releases. All findings are told at once,
with the line and the field. Findings of severity error are exit code 1. A bundle that is
invalid as such, so that the installer refuses to read it (rules layout/... and some of
metadata/...), is exit code 4 and not checked further. That cannot be waived.

What only an API server can tell, it is asked for with --against: whether it establishes
the CRDs and accepts their names, takes each object and an object of each kind with only
what the schema requires, compiles admission policies, and admits the pods of workloads to the
providers' namespace. "embedded" starts a control plane for that, with the program
controlplane. To the cluster of a kubeconfig nothing is ever written: all is asked in dry
runs. So whether a CRD would be established is not known there, nor what of a kind that
the cluster does not have yet (rule server/not-checked). Whether webhooks can be reached, and
the warnings of type checking in admission policies, are not asked for anywhere.

A provider that has findings already can begin with a baseline of them, and is told
of new ones only. A finding that is meant to be there is waived in the config file
.capi-manifests.yaml, with a reason, until a day:

  validate:
    severity: warning
    baseline: baseline.json
    waivers:
    - rule: installer/container-resources
      object: Deployment openshift-cluster-api/manager   # all objects if left out
      reason: the limit keeps a known leak from taking the node
      expires: 2027-06-30`

const validateExample = `  # What generate wrote
  capi-manifests validate capi-manifests

  # A kustomize directory, before anything is generated
  capi-manifests validate config/default --platform AWS

  # What clusterctl would install: a repository, or a release in it
  capi-manifests validate repository

  # An image, and only what must be corrected
  capi-manifests validate quay.io/me/capa:bundled --severity error

  # Findings beside the lines of a pull request on GitHub
  capi-manifests validate capi-manifests -o github

  # For code scanning, and for the test reports of a CI system
  capi-manifests validate capi-manifests -o sarif > findings.sarif
  capi-manifests validate capi-manifests -o junit > findings.xml

  # Accept what is there, and be told of what is new
  capi-manifests validate capi-manifests --write-baseline baseline.json
  capi-manifests validate capi-manifests --baseline baseline.json

  # What does an API server think of it? And that of a cluster, to which nothing is written?
  capi-manifests validate capi-manifests --against embedded
  capi-manifests validate capi-manifests --against ~/.kube/config

  # How often is each rule broken?
  capi-manifests validate capi-manifests -o json | jq -r '.bundles[].findings[].rule' | sort | uniq -c`

// findingsError says that there are findings of severity error.
type findingsError struct {
	source string
	counts map[contract.Severity]int
}

func (e *findingsError) Error() string {
	return fmt.Sprintf("%s: %s; \"capi-manifests explain RULE\" tells more of a rule", e.source, summaryOf(e.counts, 0))
}

// validateOptions are the flags of validate.
type validateOptions struct {
	format     findingsFormat
	least      contract.Severity
	color      colorMode
	configFile string
	baseline   string
	write      string
	kustomize  kustomizeFlags
	against    against
}

func newValidate() *cobra.Command {
	options := validateOptions{least: contract.Info}
	cmd := &cobra.Command{
		Use:               "validate SOURCE",
		Short:             "Check a bundle against the rules for providers",
		Long:              validateLong,
		Example:           validateExample,
		Args:              oneArg("SOURCE, an image, an OCI layout, an archive or a directory"),
		ValidArgsFunction: completeSource,
		RunE:              func(cmd *cobra.Command, args []string) error { return options.run(cmd, args[0]) },
	}
	flags := cmd.Flags()
	flags.VarP(&options.format, "output", "o", "format of the findings: "+strings.Join(findingsFormats, ", "))
	flags.Var(&options.least, "severity", "show findings that are at least so bad: error, warning or info")
	flags.Var(&options.color, "color", "color the findings: auto (on a terminal, unless NO_COLOR is set), always or never")
	flags.StringVar(&options.configFile, "config", "", "file with settings and waivers (default "+defaultConfig+", if there is one)")
	flags.StringVar(&options.baseline, "baseline", "", "file with findings that are accepted for now")
	options.kustomize.provider.register(cmd)
	options.against.register(flags)
	flags.StringVar(&options.write, "write-baseline", "", "write the findings into this file, to be accepted with --baseline, and exit with 0")
	for flag, values := range map[string][]string{"output": findingsFormats, "severity": {"error", "warning", "info"}, "color": {"auto", "always", "never"}} {
		// The only error is that there is no such flag.
		_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
	return cmd
}

func (o *validateOptions) run(cmd *cobra.Command, source string) error {
	accepted, err := o.acceptances(cmd)
	if err != nil {
		return err
	}
	result, err := o.validate(cmd, source)
	if err != nil {
		return err
	}
	source = result.Source
	if result.invalid {
		return o.tell(cmd, result)
	}
	if o.write != "" {
		if err := writeBaseline(o.write, result); err != nil {
			return err
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: findings are accepted with --baseline %s: %s\n", printable(source), o.write, summaryOf(result.Counts, o.against.rules(result)))
		return nil
	}
	result.accept(accepted)
	for _, problem := range accepted.problems() {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s\n", printable(problem))
	}
	return o.tell(cmd, result)
}

// tell writes the findings, and returns an error if one is an error.
func (o *validateOptions) tell(cmd *cobra.Command, result validation) error {
	result.drop(o.least)
	if _, err := cmd.OutOrStdout().Write(result.format(o.format, o.color.on(cmd.OutOrStdout()))); err != nil {
		return err
	}
	switch err := (&findingsError{result.Source, result.Counts}); {
	case result.invalid:
		return &invalidError{err}
	case result.Counts[contract.Error] > 0:
		return err
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s: %s%s\n", printable(result.Source), summaryOf(result.Counts, o.against.rules(result)), acceptedNote(result.Accepted))
	return nil
}

// validate checks what source holds, by the rules and by the API server that is asked for.
func (o *validateOptions) validate(cmd *cobra.Command, source string) (validation, error) {
	if releases := releasesIn(source); len(releases) > 0 {
		if err := o.onReleases(cmd, source); err != nil {
			return validation{}, err
		}
		return validateReleases(source, releases)
	}
	file := kustomization(source)
	bundles, source, err := o.bundles(cmd, source, file)
	if findings, all := contract.Unreadable(err); all && file == "" {
		return unreadable(source, findings), nil
	}
	if err != nil {
		return validation{}, err
	}
	result := validate(source, bundles)
	if err := o.against.add(cmd, &result, bundles); err != nil {
		return validation{}, err
	}
	if file != "" {
		result.place(file)
	}
	return result, nil
}

// bundles are those of source, rendered if file makes a kustomize directory of it.
func (o *validateOptions) bundles(cmd *cobra.Command, source, file string) ([]extractor.Bundle, string, error) {
	if given := o.kustomize.provider.given(); file == "" && len(given) > 0 {
		return nil, source, &usageError{cmd.CommandPath(), onlyForKustomize(given, source)}
	}
	if file == "" {
		return bundlesAt(cmd.Context(), cmd.ErrOrStderr(), source)
	}
	bundle, err := o.kustomize.render(cmd, source)
	return []extractor.Bundle{bundle}, source, err
}

// onlyForKustomize says that flags mean nothing for a source.
func onlyForKustomize(flags []string, source string) error {
	return fmt.Errorf("%s: only for a kustomize directory, which %s is not", strings.Join(flags, ", "), source)
}

// validate checks bundles.
func validate(source string, bundles []extractor.Bundle) validation {
	result := validation{Schema: validationSchema, Source: source, Bundles: []validatedBundle{}}
	for _, bundle := range bundles {
		findings := []contract.Finding{}
		for _, finding := range contract.Check(bundle) {
			finding.File = fileOf(source, bundle, finding.File)
			findings = append(findings, finding)
		}
		about := metadataOf(bundle.Metadata)
		result.Bundles = append(result.Bundles, validatedBundle{Profile: bundle.Profile, Metadata: &about, Findings: withLines(findings)})
	}
	result.count()
	return result
}

// unreadable is the validation of what holds no bundle that can be read.
func unreadable(source string, findings []contract.Finding) validation {
	for i := range findings {
		findings[i].File = cmp.Or(onDisk(source, findings[i].File), missing(source, findings[i].File))
	}
	findings = withLines(findings)
	slices.SortStableFunc(findings, func(a, b contract.Finding) int {
		return cmp.Or(-strings.Compare(path.Base(a.File), path.Base(b.File)), cmp.Compare(a.Line, b.Line)) // metadata, then manifests
	})
	result := validation{Schema: validationSchema, Source: source, Bundles: []validatedBundle{{Findings: findings}}, invalid: true}
	result.count()
	return result
}

// withLines adds the lines of findings about a key of the metadata, where the file is at hand.
func withLines(findings []contract.Finding) []contract.Finding {
	files := map[string][]byte{}
	for i := range findings {
		f := &findings[i]
		if f.Field == "" || f.Object != "" || f.Line != 0 {
			continue
		}
		if _, known := files[f.File]; !known {
			files[f.File], _ = os.ReadFile(f.File) // in an image, which has other files than the disk, there is none
		}
		f.Line = extractor.KeyLine(files[f.File], f.Field)
	}
	return findings
}

// fileOf is the path of a file of a bundle: below source if that is a directory,
// or else from the image's root, by the name that it usually has.
func fileOf(source string, bundle extractor.Bundle, file string) string {
	dir, endings := extractor.Roots()[0], []string{".json", ".yaml", ""}
	if bundle.Profile != "" {
		dir, endings = path.Join(extractor.Roots()[1], bundle.Profile), []string{".yaml", ""}
	}
	limit := map[string]int64{contract.ManifestsFile: extractor.MaxManifests, contract.MetadataFile: extractor.MaxMetadata}[file]
	var usual string
	for _, ending := range endings {
		inImage := path.Join(dir, file+ending)
		if extractor.Limit(inImage) != limit {
			continue // the format has no such file
		}
		usual = cmp.Or(usual, inImage)
		if file := onDisk(source, inImage); file != "" {
			return file
		}
	}
	return usual
}

// missing is the path of a file of an image that is not there: below source, if that is a directory.
func missing(source, inImage string) string {
	if kind, err := kindOf(source); err != nil || kind != isDirectory || inImage == "" {
		return cmp.Or(inImage, source)
	}
	root, below, _ := strings.Cut(inImage, "/")
	if _, err := os.Stat(filepath.Join(source, root)); err == nil {
		return filepath.Join(source, inImage)
	}
	return filepath.Join(source, below)
}

// onDisk is the path of a file of an image below source, if that is a directory with the file.
func onDisk(source, inImage string) string {
	_, below, _ := strings.Cut(inImage, "/") // where source is the root itself
	for _, file := range []string{filepath.Join(source, inImage), filepath.Join(source, below)} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// summaryOf counts findings: "2 errors, 1 warning", or says by how many rules there are none.
func summaryOf(counts map[contract.Severity]int, rules int) string {
	var parts []string
	for _, severity := range contract.Severities() {
		switch count := counts[severity]; {
		case count == 1:
			parts = append(parts, "1 "+string(severity))
		case count > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", count, severity))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("no findings by %d rules", rules)
	}
	return strings.Join(parts, ", ")
}
