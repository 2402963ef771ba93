// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/remote"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// knownErrors are the true error-level findings about providers, by folder and rule, with the reason.
var knownErrors = map[string]map[string]string{
	"infrastructure-kubevirt": {
		"contract/field-types": "status.failureDomains is a list under the contract v1beta1: core fails as soon as there is one",
	},
	"cluster-api-provider-nutanix": {
		"clusterctl/variables-default": "NUTANIX_ENDPOINT has no default, and no cluster sets it",
	},
	"openshift-metal3 (shipped)": {
		"webhook/service-port": "the bundle has the webhooks of ipam.metal3.io, but no Deployment of the IP address manager that serves them",
		"webhook/cert-mounted": "for the same reason no pod mounts the certificate of that Service",
	},
}

// sample is the part of the corpus that runs without E2E=full: one provider of each type, and one as OpenShift ships it.
var sample = []string{
	"addon-helm", "control-plane-rke2", "core-cluster-api", "infrastructure-docker", "ipam-in-cluster", "openshift-metal3 (shipped)",
	"runtime-extension-test", "cluster-api-provider-nutanix",
}

// entry is a provider of the corpus: the options that generate its bundle, or the bundle as OpenShift ships it.
type entry struct {
	name string
	// options returns the options; nil if the bundle is taken as it is shipped.
	options func(t *testing.T) generate.Options
	shipped extractor.Files
}

// row is the line of an entry in the table.
type row struct {
	name                    string
	objects, size           int
	errors, warnings, infos int
	layout, planned, diff   string
}

// TestCorpus generates, validates, packs, plans and compares every folder in PROVIDERS and FORKS; without E2E=full it takes a sample. With -v it
// prints a table. An error-level finding that is not in knownErrors fails the test, and so does an entry of knownErrors that
// is no longer found. TestCluster_AcceptsRealProviders in cmd/capi-manifests/internal/apiserver is the same for an API server.
func TestCorpus(t *testing.T) {
	entries := corpus(t)
	if len(entries) == 0 {
		t.Skip("neither PROVIDERS nor FORKS names a folder")
	}
	core := coreBundle(t)
	var lock sync.Mutex
	var rows []row
	t.Run("providers", func(t *testing.T) {
		for _, e := range entries {
			if os.Getenv("E2E") != "full" && !slices.Contains(sample, e.name) {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				t.Parallel()
				r := e.run(t, core)
				lock.Lock()
				defer lock.Unlock()
				rows = append(rows, r)
			})
		}
	})
	t.Log(table(rows))
}

// corpus lists the providers of PROVIDERS and FORKS.
func corpus(t *testing.T) (entries []entry) {
	t.Helper()
	rendered, err := fixture.RenderedProviders()
	must(t, err)
	for _, provider := range rendered {
		if provider.Metadata != nil {
			entries = append(entries, entry{name: provider.Folder + " (shipped)", shipped: extractor.Files{
				"capi-operator-manifests/default/metadata.yaml": provider.Metadata, "capi-operator-manifests/default/manifests.yaml": provider.Components,
			}})
			continue
		}
		entries = append(entries, entry{name: provider.Folder, options: func(t *testing.T) generate.Options { return renderedOptions(t, provider) }})
	}
	forks, err := fixture.Forks()
	must(t, err)
	for _, fork := range forks {
		entries = append(entries,
			entry{name: fork.Folder + " (shipped)", shipped: fork.Shipped},
			entry{name: fork.Folder, options: func(*testing.T) generate.Options {
				return generate.Options{
					Dir: fork.Kustomization, ProviderName: fork.Name, ProviderType: fork.Type, ProviderVersion: fork.Version, OCPPlatform: fork.Platform,
					InstallOrder: fork.InstallOrder, Options: transform.Options{ImageName: fork.ImageName, ProtectClusters: fork.ProtectClusters},
				}
			}})
	}
	return entries
}

func renderedOptions(t *testing.T, provider fixture.Rendered) generate.Options {
	t.Helper()
	dir, placeholder := t.TempDir(), "registry.example.com/openshift:"+provider.Name
	must(t, fixture.WriteKustomization(dir, provider.Components))
	return generate.Options{
		Dir: dir, ProviderName: provider.Name, ProviderType: provider.Type, ProviderVersion: provider.Version, OCPPlatform: provider.Platform,
		Options: transform.Options{ImageName: placeholder, Images: provider.Pins(placeholder)},
	}
}

// coreBundle is a small core provider: a plan needs one, and its objects must not collide with a real provider's.
func coreBundle(t *testing.T) extractor.Bundle {
	t.Helper()
	manifests := []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: core-of-the-corpus-test, namespace: openshift-cluster-api}\n")
	options := generate.Options{ProviderName: "cluster-api", ProviderType: extractor.Core, ProviderVersion: "v1.0.0"}
	return extractor.Bundle{Origin: originOf("core", manifests), Metadata: options.Metadata(manifests), Manifests: manifests}
}

// originOf is the image of a bundle in the release.
func originOf(name string, manifests []byte) extractor.Origin {
	digest := generate.Options{}.Metadata(manifests).ContentID
	return extractor.Origin{Name: name, Image: "registry.example.com/openshift/" + name + "@" + digest.String()}
}

// run takes an entry through all steps.
func (e entry) run(t *testing.T, core extractor.Bundle) row {
	t.Helper()
	b := e.bundle(t)
	r := row{name: e.name, size: len(b.Manifests)}
	objects, err := bundle.Objects(b)
	must(t, err)
	r.objects = len(objects)
	e.validate(t, b, &r)
	packed := packAndRead(t, b)
	r.layout = b.Metadata.ContentID.Encoded()[:12]
	r.planned = plan(t, core, packed)
	r.diff = compare(t, b, packed)
	return r
}

func (e entry) bundle(t *testing.T) extractor.Bundle {
	t.Helper()
	if e.options == nil {
		bundles, err := e.shipped.Bundles(extractor.Origin{})
		if err != nil || len(bundles) != 1 {
			t.Fatalf("%d bundles: %v", len(bundles), err)
		}
		return bundles[0]
	}
	b, _, err := generate.Bundle(e.options(t))
	must(t, err)
	if b.Metadata.InstallOrder != 0 {
		b.Profile = "default" // only this layout has an install order
	}
	return b
}

// validate counts the findings, and compares the errors among them with knownErrors.
func (e entry) validate(t *testing.T, b extractor.Bundle, r *row) {
	t.Helper()
	known := maps.Clone(knownErrors[e.name])
	for _, finding := range contract.Check(b, rules.All()) {
		switch finding.Severity {
		case contract.Error:
			r.errors++
			if knownErrors[e.name][finding.Rule] == "" {
				t.Errorf("%s %s: %s [%s]", finding.Object, finding.Field, finding.Message, finding.Rule)
			}
			delete(known, finding.Rule)
		case contract.Warning:
			r.warnings++
		case contract.Info:
			r.infos++
		}
	}
	for rule, reason := range known {
		t.Errorf("rule %s no longer has a finding; remove it from knownErrors (%s)", rule, reason)
	}
}

// packAndRead packs a bundle into an OCI layout and reads it back, as an image of a release.
func packAndRead(t *testing.T, b extractor.Bundle) extractor.Bundle {
	t.Helper()
	image, err := pack.Pack(nil, b)
	must(t, err)
	dir := filepath.Join(t.TempDir(), "layout")
	must(t, pack.WriteLayout(t.Context(), dir, image, ""))
	read, err := ocilayout.Read(dir)
	must(t, err)
	bundles, err := remote.FromImage(t.Context(), read.(v1.Image), originOf("provider", b.Manifests))
	if err != nil || len(bundles) != 1 {
		t.Fatalf("the layout has %d bundles: %v", len(bundles), err)
	}
	if !bytes.Equal(bundles[0].Manifests, b.Manifests) {
		t.Error("the layout has other manifests than the bundle")
	}
	return bundles[0]
}

// plan plans a release of the bundle and a core provider, on the platform of the bundle, and returns the number of phases and objects.
func plan(t *testing.T, core, b extractor.Bundle) string {
	t.Helper()
	platform, bundles := b.Metadata.OCPPlatform, []extractor.Bundle{b}
	if platform == "" {
		platform = "None" // which needs no infrastructure provider
	}
	switch b.Metadata.ProviderType {
	case extractor.Core:
	case extractor.Infrastructure:
		bundles = append(bundles, core)
	default:
		platform, bundles = "None", append(bundles, core)
	}
	selected, err := operand.Select(operand.Platforms{platform}, []extractor.Result{{Bundles: bundles}})
	must(t, err)
	set, err := operand.Render(operand.Inputs{Bundles: selected, Variables: valuesOf(t, b)})
	must(t, err)
	phases, err := revision.Phases("4.22.0-1", 1, set, nil)
	must(t, err)
	return fmt.Sprintf("%d phases", len(phases))
}

// valuesOf gives each variable without default a value, as an administrator would.
func valuesOf(t *testing.T, b extractor.Bundle) map[string]string {
	t.Helper()
	contents, err := bundle.ContentsOf(b)
	must(t, err)
	values := map[string]string{}
	for _, variable := range contents.Variables {
		values[variable.Name] = ""
	}
	return values
}

// compare compares a bundle with its packed copy.
func compare(t *testing.T, before, after extractor.Bundle) string {
	t.Helper()
	report := diff.Compare([]diff.Provider{sideOf(t, before)}, []diff.Provider{sideOf(t, after)})
	if report.Verdict.Worst() != diff.None {
		t.Errorf("the packed bundle differs: %+v", report.Verdict)
		return string(report.Verdict.Worst())
	}
	return "equal"
}

func sideOf(t *testing.T, b extractor.Bundle) diff.Provider {
	t.Helper()
	objects, err := bundle.Objects(b)
	must(t, err)
	return diff.Provider{Name: b.Metadata.ProviderName, Type: string(b.Metadata.ProviderType), Version: b.Metadata.ProviderVersion, Objects: objects}
}

// table lists the rows by name.
func table(rows []row) string {
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.name, b.name) })
	var text strings.Builder
	fmt.Fprintf(&text, "%d providers\n", len(rows))
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROVIDER\tOBJECTS\tBYTES\tERRORS\tWARNINGS\tINFOS\tPACKED\tPLAN\tDIFF")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\n", r.name, r.objects, r.size, r.errors, r.warnings, r.infos, r.layout, r.planned, r.diff)
	}
	if err := w.Flush(); err != nil {
		panic(err) // a strings.Builder accepts every write
	}
	return text.String()
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
