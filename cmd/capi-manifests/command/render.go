// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
)

// renderSource is what the bundles of a source come to in a cluster, and the source: the image by digest, or
// the path. Each bundle is rendered by itself, because those for several platforms or profiles may
// bring the same objects.
func renderSource(ctx context.Context, stderr io.Writer, source string, variables map[string]string) (operand.Set, string, error) {
	bundles, source, err := bundlesAt(ctx, stderr, source)
	if err != nil {
		return operand.Set{}, source, err
	}
	all := operand.Set{Variables: map[string]string{}}
	var errs []error
	for _, bundle := range bundles {
		set, err := operand.Render([]extractor.Bundle{inImage(bundle, source)}, variables)
		errs = append(errs, err)
		for _, component := range set.Operands {
			if bundle.Profile != "" && len(bundles) > 1 {
				component.Version += ", profile " + bundle.Profile
			}
			all.Operands = append(all.Operands, component)
		}
		maps.Copy(all.Variables, set.Variables)
	}
	return all, source, errors.Join(errs...)
}

// inImage is a bundle as if it was in an image, if it is nowhere yet: a cluster renders no other.
func inImage(bundle extractor.Bundle, source string) extractor.Bundle {
	if bundle.Origin.Image == "" && len(bundle.Origin.ConfigMaps) == 0 {
		bundle.Origin.Name = source
		bundle.Origin.Image = "localhost/" + bundle.Metadata.ProviderName + "@" + digest.FromString(source).String()
	}
	return bundle
}

// noteUnused says what was given for nothing, because a name may be mistyped: the CRDs that are
// not to be managed and that no component has, and the variables that no manifests ask for.
func noteUnused(w io.Writer, unmanaged []string, variables map[string]string, set operand.Set) {
	has := map[string]bool{}
	for _, component := range set.Operands {
		for _, object := range component.Objects {
			has[object.GetName()] = has[object.GetName()] || object.GetKind() == "CustomResourceDefinition"
		}
	}
	for _, name := range unmanaged {
		if !has[name] {
			fmt.Fprintf(w, "note: no component has the unmanaged CRD %s\n", printable(name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if _, used := set.Variables[name]; !used {
			fmt.Fprintf(w, "note: no manifests ask for the variable %s\n", printable(name))
		}
	}
}
