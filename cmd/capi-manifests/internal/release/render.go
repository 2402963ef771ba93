// SPDX-License-Identifier: Apache-2.0

package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/install/tlsprofile"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// ClusterVariables returns the variables that have a value in every cluster, with the values in a cluster with the default
// TLS profile and without a proxy.
func ClusterVariables() map[string]string {
	return variable.Values(map[variable.Source]map[string]string{variable.TLSProfile: tlsprofile.Of(nil).Variables()})
}

// Render renders bundles with ClusterVariables. The variables of the inputs take precedence. A Secret whose keys are unknown is taken to have
// the variables without a default.
func Render(inputs operand.Inputs) (operand.Set, error) {
	values := ClusterVariables()
	maps.Copy(values, inputs.Variables)
	inputs.Variables = values
	for _, bundle := range inputs.Bundles {
		component := inputs.Settings.For(bundle.Metadata.ProviderName)
		component.Expand(bundle.Manifests, func(secret string) iter.Seq[string] {
			if inputs.Settings.Values != nil {
				if values := inputs.Settings.Values(secret); values != nil {
					return maps.Keys(values)
				}
			}
			component.Own.VariablesFrom = nil
			return maps.Keys(Placeholders(bundle))
		})
	}
	return operand.Render(inputs)
}

// Render returns the components of a cluster with the platforms, and the bundles of all images of the release.
func (s Source) Render(ctx context.Context, stdin io.Reader, stderr io.Writer, platforms operand.Platforms, variables map[string]string) (operand.Set, []extractor.Result, error) {
	results, err := s.Read(ctx, stdin, stderr)
	if err != nil {
		return operand.Set{}, nil, err
	}
	bundles, err := operand.Select(platforms, results)
	if err != nil {
		return operand.Set{}, nil, err
	}
	settings := s.Settings
	settings.Unselected, settings.Unused = operand.Unselected(platforms, results)
	set, err := Render(operand.Inputs{Bundles: bundles, Variables: variables, Settings: settings})
	return set, results, err
}

// RenderSources renders sources as RenderSource does, and appends their components to a set.
func RenderSources(ctx context.Context, stderr io.Writer, after operand.Set, sources []string, variables map[string]string) (operand.Set, error) {
	all := operand.Set{Operands: slices.Clone(after.Operands), Variables: maps.Clone(after.Variables)}
	if all.Variables == nil {
		all.Variables = map[string]string{}
	}
	var errs []error
	for _, src := range sources {
		set, _, err := RenderSource(ctx, stderr, src, variables)
		errs = append(errs, err)
		all.Operands = append(all.Operands, set.Operands...)
		maps.Copy(all.Variables, set.Variables)
	}
	return all, errors.Join(errs...)
}

// RenderSource renders the bundles of a source as a cluster does, and returns the
// location of the source: the image by digest, or the path. Each bundle is rendered
// separately, because bundles of different platforms or profiles may define the
// same objects.
func RenderSource(ctx context.Context, stderr io.Writer, src string, variables map[string]string) (operand.Set, string, error) {
	bundles, src, err := source.Bundles(ctx, stderr, src)
	if err != nil {
		return operand.Set{}, src, err
	}
	all := operand.Set{Variables: map[string]string{}}
	var errs []error
	for _, bundle := range bundles {
		set, err := Render(operand.Inputs{Bundles: []extractor.Bundle{InImage(bundle, src)}, Variables: variables})
		errs = append(errs, err)
		for _, component := range set.Operands {
			if bundle.Profile != "" && len(bundles) > 1 {
				component.Version += ", profile " + bundle.Profile
			}
			all.Operands = append(all.Operands, component)
		}
		maps.Copy(all.Variables, set.Variables)
	}
	return all, src, errors.Join(errs...)
}

// InImage sets an image by digest in a bundle without an origin, because rendering
// requires one.
func InImage(bundle extractor.Bundle, src string) extractor.Bundle {
	if bundle.Origin.Image == "" && len(bundle.Origin.ConfigMaps) == 0 {
		bundle.Origin.Name = src
		bundle.Origin.Image = "localhost/" + bundle.Metadata.ProviderName + "@" + digest.FromString(src).String()
	}
	return bundle
}

// NoteUnused writes a note about each entry of the spec that names nothing in the components, and each variable that no manifests use,
// because the name may be mistyped.
func NoteUnused(w io.Writer, unmanaged []string, policy []v1alpha1.IgnoredFields, variables map[string]string, set operand.Set) {
	for _, entry := range setting.Unknown(unmanaged, policy, set.Objects()) {
		fmt.Fprintln(w, "note:", term.Printable(entry))
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if _, used := set.Variables[name]; !used {
			fmt.Fprintf(w, "note: variable %s not found in any manifests\n", term.Printable(name))
		}
	}
}
