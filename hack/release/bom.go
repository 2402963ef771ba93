// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"fmt"
	"maps"
	"path"
	"runtime/debug"
	"slices"
	"strings"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licensecheck"
)

// writeBillsOfMaterials writes the modules of each program with their licences (CycloneDX). A bill is about all platforms of its program.
func (b build) writeBillsOfMaterials(ctx context.Context) error {
	platforms := map[string][]platform{"capi-manifests": b.platforms, "capi-extension": b.platforms}
	for _, arch := range imagePlatforms {
		for _, name := range []string{installer, "capi-lifecycle-hooks"} {
			platforms[name] = append(platforms[name], platform{"linux", arch})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(platforms)) {
		components := map[string]cyclonedx.Component{}
		for _, p := range platforms[name] {
			if err := b.addComponents(ctx, name, p, components); err != nil {
				return err
			}
		}
		if err := b.writeBill(name, components); err != nil {
			return err
		}
	}
	return nil
}

// writeBill writes the bill of a program with these components.
func (b build) writeBill(name string, components map[string]cyclonedx.Component) error {
	list := slices.SortedFunc(maps.Values(components), func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	bom := cyclonedx.NewBOM()
	bom.Components = &list
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: b.created.Format(timeFormat),
		Component: &cyclonedx.Component{
			BOMRef: name, Type: cyclonedx.ComponentTypeApplication, Name: name, Version: b.version, PackageURL: b.own(""), Licenses: identifiers([]string{"Apache-2.0"}),
		},
	}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return b.write(name+".cdx.json", out.Bytes())
}

// addComponents adds the modules of a program by their package URLs.
func (b build) addComponents(ctx context.Context, name string, p platform, components map[string]cyclonedx.Component) error {
	program, err := b.program(ctx, name, p)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("reading the modules of %s: %w", program, err)
	}
	texts, err := b.licences(ctx, program)
	if err != nil {
		return err
	}
	for _, module := range append([]*debug.Module{{Path: "std", Version: info.GoVersion}}, info.Deps...) {
		component := b.component(module)
		if _, known := components[component.BOMRef]; known {
			continue
		}
		found := spdx(texts, path.Join("licences", module.Path))
		if isStandIn(module) {
			found = spdx(texts, "")
		}
		if len(found) == 0 {
			return fmt.Errorf("the licence of module %s is unknown", module.Path)
		}
		component.Licenses = identifiers(found)
		components[component.BOMRef] = component
	}
	return nil
}

// component returns a module without its licences. A module in this repository is a part of the release: it is not the module whose name
// it has.
func (b build) component(module *debug.Module) cyclonedx.Component {
	name, version := module.Path, module.Version
	if module.Replace != nil {
		name, version = module.Replace.Path, module.Replace.Version
	}
	reference := "pkg:golang/" + name + "@" + strings.TrimPrefix(version, "go")
	if isStandIn(module) {
		name, version, reference = module.Path, b.version, b.own(strings.TrimLeft(name, "./"))
	}
	return cyclonedx.Component{BOMRef: reference, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version, PackageURL: reference}
}

// isStandIn reports whether a folder of this repository replaces a module. Folders have no sum.
func isStandIn(module *debug.Module) bool { return module.Replace != nil && module.Replace.Sum == "" }

// own returns the package URL of a folder of this repository.
func (b build) own(folder string) string {
	reference := "pkg:golang/" + strings.TrimPrefix(source, "https://") + "@" + b.version
	if folder != "" {
		reference += "#" + folder
	}
	return reference
}

// spdx returns the SPDX identifiers of the licences in the files of a folder, sorted. Patent grants, notices and the licences of
// documentation are not the licence of a module.
func spdx(texts files, folder string) []string {
	found := map[string]bool{}
	for name, f := range texts {
		base := strings.ToLower(path.Base(name))
		if path.Join(folder, path.Base(name)) != name || strings.HasPrefix(base, "patents") || strings.HasPrefix(base, "notice") || strings.HasSuffix(base, ".docs") {
			continue
		}
		for _, match := range licensecheck.Scan(f.content).Match {
			if !match.IsURL {
				found[match.ID] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// identifiers returns licences as CycloneDX has them.
func identifiers(ids []string) *cyclonedx.Licenses {
	var licences cyclonedx.Licenses
	for _, id := range ids {
		licences = append(licences, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &licences
}
