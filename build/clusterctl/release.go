// SPDX-License-Identifier: Apache-2.0

// Package clusterctl generates releases for clusterctl repositories from the same
// kustomize directories as bundles: components, metadata.yaml and a README, without
// the transforms for OpenShift.
package clusterctl

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/kustomize"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/capicontract"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// Release is a version of a provider in the layout of a local clusterctl repository
// (https://cluster-api.sigs.k8s.io/clusterctl/provider-contract): the output of the
// kustomize directory without the transforms for OpenShift.
type Release struct {
	// Dir is the directory of the files in the repository: "<provider
	// label>/<version>".
	Dir string
	// Files are the components, metadata.yaml and README.md, by name.
	Files map[string][]byte
	// Notes are sentences about probable mistakes that clusterctl does not reject.
	Notes []string
}

// configTypes are the types of providers in clusterctl's config file.
var configTypes = map[extractor.ProviderType]string{
	extractor.Core:             "CoreProvider",
	extractor.Bootstrap:        "BootstrapProvider",
	extractor.ControlPlane:     "ControlPlaneProvider",
	extractor.Infrastructure:   "InfrastructureProvider",
	extractor.IPAM:             "IPAMProvider",
	extractor.RuntimeExtension: "RuntimeExtensionProvider",
	extractor.Addon:            "AddonProvider",
}

// New returns the release of a kustomize directory for a clusterctl repository.
// metadata is the provider's own metadata.yaml; if it is nil, New generates one
// with a release series for the version, with the contract in the labels of the
// CRDs. The options for OpenShift are ignored, and images are replaced by images
// that can be pulled, not by the placeholder. The error is a
// *transform.OptionsError for wrong options, and joins all findings.
func New(o generate.Options, metadata []byte) (Release, error) {
	if err := o.Check(); err != nil {
		return Release{}, err
	}
	release, err := newRelease(o, metadata)
	if err != nil {
		return Release{}, fmt.Errorf("generating from %s: %w", o.Dir, err)
	}
	return release, nil
}

func newRelease(o generate.Options, metadata []byte) (Release, error) {
	objects, err := kustomize.Render(o.Dir)
	if err != nil {
		return Release{}, err
	}
	label := clusterctlLabel(o, objects)
	release := Release{Dir: path.Join(label, o.ProviderVersion)}
	var errs []error
	if metadata == nil {
		metadata, err = newMetadata(o.ProviderVersion, contractsOf(objects))
		errs = append(errs, err)
	}
	errs = append(errs, transform.ReplaceImages(objects, pullable(o))...)
	errs = append(errs, object.CheckUnique(objects)...)
	for _, obj := range objects {
		object.EnsureMap(obj.Object, "metadata", "labels")[capicontract.ProviderLabel] = label
	}
	slices.SortStableFunc(objects, object.Compare)
	components, err := kustomize.Print(objects)
	if err != nil {
		return Release{}, err
	}
	file := contract.ComponentsNames[o.ProviderType]
	release.Files = map[string][]byte{
		file: components, "metadata.yaml": metadata,
		"README.md": clusterctlReadme(o, label, path.Join(release.Dir, file), components),
	}
	if err := errors.Join(append(errs, release.check()...)...); err != nil {
		return Release{}, err
	}
	return release, nil
}

// check returns an error for each finding that makes clusterctl reject the release,
// and adds a note for each other finding.
func (r *Release) check() (errs []error) {
	for _, f := range contract.CheckReleaseForm(contract.Release{Dir: r.Dir, Files: r.Files}, rules.All()) {
		text := whereOf(f) + ": " + f.Message
		switch f.Severity {
		case contract.Error:
			errs = append(errs, errors.New(text))
		case contract.Warning:
			r.Notes = append(r.Notes, text)
		case contract.Info: // reported by validate only
		}
	}
	return errs
}

// whereOf returns the line of metadata.yaml if the provider has one, or else the
// object.
func whereOf(f contract.Finding) string {
	switch {
	case f.Line > 0 && f.File == "metadata.yaml":
		return strings.TrimSuffix(fmt.Sprintf("%s:%d: %s", f.File, f.Line, f.Field), ": ")
	case f.Object != "":
		return strings.TrimSpace(f.Object + " " + f.Field)
	}
	return f.File
}

// pullable returns the images to replace with images that a cluster can pull.
func pullable(o generate.Options) map[string]string {
	images := map[string]string{}
	for old, replacement := range o.Images {
		if replacement != o.ImageName {
			images[old] = replacement
		}
	}
	return images
}

// clusterctlLabel returns the provider label. It prefers the label of the objects
// if clusterctl accepts it for this type, and otherwise derives the label from the
// provider's name.
func clusterctlLabel(o generate.Options, objects []*unstructured.Unstructured) string {
	for _, obj := range objects {
		if label := obj.GetLabels()[capicontract.ProviderLabel]; contract.TypeOfLabel(label) == o.ProviderType {
			return label
		}
	}
	return contract.ProviderLabel(o.Metadata(nil))
}

// clusterctlReadme returns the README.md of the release: usage and variables.
func clusterctlReadme(o generate.Options, label, components string, manifests []byte) []byte {
	flag, _, _ := strings.Cut(path.Base(components), "-components.yaml") // clusterctl names both by the type
	name := strings.TrimPrefix(label, flag+"-")
	var out bytes.Buffer
	fmt.Fprintf(&out, `# %s %s for clusterctl

Name the provider in clusterctl's config file, with the absolute path of this repository, and install it:

`+"```yaml"+`
providers:
- name: %s
  type: %s
  url: file://<path of the repository>/%s
`+"```"+`

`+"```sh"+`
clusterctl init --config <config file> --%s %[3]s
`+"```"+`
`, o.ProviderName, o.ProviderVersion, name, configTypes[o.ProviderType], components, flag)
	variables := variable.Variables(manifests)
	if len(variables) == 0 {
		out.WriteString("\nThe manifests have no variables.\n")
		return out.Bytes()
	}
	out.WriteString("\nclusterctl takes the values of variables from the environment or from its config file:\n\n| variable | default |\n|---|---|\n")
	for _, variable := range variables {
		fallback := "required" // clusterctl requires a value unless any default is not empty
		switch {
		case variable.Default != nil && *variable.Default == "":
			fallback = "required, may be empty"
		case variable.Default != nil:
			fallback = "`" + *variable.Default + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", variable.Name, strings.ReplaceAll(fallback, "|", `\|`))
	}
	return out.Bytes()
}

// contractsOf returns the contracts that the labels of the CRDs name, the oldest
// first, without duplicates.
func contractsOf(objects []*unstructured.Unstructured) []string {
	var contracts []string
	for _, obj := range objects {
		if !object.IsCRD(obj) {
			continue
		}
		if contract := capicontract.Of(obj.GetLabels()); contract != "" {
			contracts = append(contracts, contract)
		}
	}
	slices.SortFunc(contracts, capicontract.Compare)
	return slices.Compact(contracts)
}

// newMetadata returns a metadata.yaml for the series of a version, and an error if
// the CRDs have several contracts.
func newMetadata(version string, contracts []string) ([]byte, error) {
	var err error
	if len(contracts) > 1 {
		err = fmt.Errorf("the CRDs have labels for several contracts (%s), but a release has only one; label all CRDs for the newest contract, or use the provider's own metadata.yaml", strings.Join(contracts, " and "))
	}
	contract := capicontract.Newest // for providers without CRDs of a contract
	if len(contracts) > 0 {
		contract = contracts[len(contracts)-1]
	}
	series, _ := capicontract.SeriesOf(version) // Release.check reports a version that clusterctl does not accept
	return fmt.Appendf(nil, `# The contract between Cluster API and its providers that each release series implements:
# clusterctl installs and upgrades only providers of one contract together.
apiVersion: %s
kind: Metadata
releaseSeries:
- major: %d
  minor: %d
  contract: %s
`, capicontract.MetadataVersion, series.Major, series.Minor, contract), err
}
