// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"cmp"
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/extractor"
)

// Check checks bundles.
func Check(src string, bundles []extractor.Bundle) Report {
	result := Report{Schema: schema.Validation, Source: src, Bundles: []Bundle{}}
	for _, bundle := range bundles {
		findings := []contract.Finding{}
		for _, finding := range contract.Check(bundle, rules.All()) {
			finding.File = FileOf(src, bundle, finding.File)
			findings = append(findings, finding)
		}
		result.Bundles = append(result.Bundles, Bundle{Profile: bundle.Profile, Metadata: &bundle.Metadata, Findings: withLines(findings)})
	}
	result.Count()
	return result
}

// Unreadable returns the report about a source whose bundle cannot be read.
func Unreadable(src string, findings []contract.Finding) Report {
	for i := range findings {
		findings[i].File = cmp.Or(onDisk(src, findings[i].File), missing(src, findings[i].File))
	}
	findings = withLines(findings)
	slices.SortStableFunc(findings, func(a, b contract.Finding) int {
		return cmp.Or(-strings.Compare(path.Base(a.File), path.Base(b.File)), cmp.Compare(a.Line, b.Line)) // metadata, then manifests
	})
	result := Report{Schema: schema.Validation, Source: src, Bundles: []Bundle{{Findings: findings}}, Invalid: true}
	result.Count()
	return result
}

// withLines adds the lines of findings about a key of the metadata, if the file is
// available.
func withLines(findings []contract.Finding) []contract.Finding {
	files := map[string][]byte{}
	for i := range findings {
		f := &findings[i]
		if f.Field == "" || f.Object != "" || f.Line != 0 {
			continue
		}
		if _, known := files[f.File]; !known {
			files[f.File], _ = os.ReadFile(f.File) // none for an image
		}
		f.Line = extractor.KeyLine(files[f.File], f.Field)
	}
	return findings
}

// FileOf returns the path of a file of a bundle: below source if that is a
// directory, or else from the image's root, under its usual name.
func FileOf(src string, bundle extractor.Bundle, file string) string {
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
		if file := onDisk(src, inImage); file != "" {
			return file
		}
	}
	return usual
}

// missing returns the path of a missing file of an image: below source, if that is
// a directory.
func missing(src, inImage string) string {
	if kind, err := source.KindOf(src); err != nil || kind != source.Directory || inImage == "" {
		return cmp.Or(inImage, src)
	}
	root, below, _ := strings.Cut(inImage, "/")
	if _, err := os.Stat(filepath.Join(src, root)); err == nil {
		return filepath.Join(src, inImage)
	}
	return filepath.Join(src, below)
}

// onDisk returns the path of an image's file below source, if source is a directory
// with the file.
func onDisk(src, inImage string) string {
	_, below, _ := strings.Cut(inImage, "/")
	// The source is the root of the image, the root of its bundles, or the directory of a profile.
	for _, file := range []string{filepath.Join(src, inImage), filepath.Join(src, below), filepath.Join(src, path.Base(inImage))} {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			return file
		}
	}
	return ""
}

// CheckReleases checks releases for clusterctl in a directory.
func CheckReleases(src string, dirs []string) (Report, error) {
	result := Report{Schema: schema.Validation, Source: src, Bundles: []Bundle{}}
	for _, dir := range dirs {
		release, err := source.ReadClusterctlRelease(src, dir)
		if err != nil {
			return Report{}, err
		}
		provider, findings := contract.CheckRelease(release, rules.All())
		for i := range findings {
			findings[i].File = filepath.Join(src, dir, findings[i].File)
			result.Invalid = result.Invalid || findings[i].Rule == rules.RuleOfYAML // clusterctl cannot read it either
		}
		result.Bundles = append(result.Bundles, Bundle{Release: dir, Metadata: &provider, Findings: append([]contract.Finding{}, findings...)})
	}
	result.Count()
	return result, nil
}

// CheckedRules returns the number of checked rules; server reports whether an API server checks the bundles.
func (v *Report) CheckedRules(server bool) int {
	var of Bundle
	if len(v.Bundles) > 0 {
		of = v.Bundles[0] // all have the same form
	}
	return len(slices.DeleteFunc(of.Rules(), func(rule contract.Rule) bool { return rule.Checker == contract.CheckerServer && !server }))
}

// AskServer adds the findings of an API server in the bundles of a report.
func (v *Report) AskServer(ctx context.Context, bundles []extractor.Bundle, server contract.Server) error {
	for i, bundle := range bundles {
		list, err := contract.CheckAgainst(ctx, bundle, server, rules.All())
		if err != nil {
			return err
		}
		for j := range list {
			list[j].File = FileOf(v.Source, bundle, list[j].File)
		}
		v.Bundles[i].Findings, v.Bundles[i].AskedServer = append(v.Bundles[i].Findings, list...), true
	}
	v.Count()
	return nil
}

// AskServerAboutReleases adds the findings of an API server about the releases of a report. A line with an error
// has its cause already, and so has an object with an error if the server names no field.
func (v *Report) AskServerAboutReleases(ctx context.Context, server contract.Server) error {
	for i, bundle := range v.Bundles {
		release, err := source.ReadClusterctlRelease(v.Source, bundle.Release)
		if err != nil {
			return err
		}
		list, err := contract.CheckReleaseAgainst(ctx, release, server, rules.All())
		if err != nil {
			return err
		}
		for _, f := range list {
			f.File = filepath.Join(v.Source, bundle.Release, f.File)
			known := slices.ContainsFunc(bundle.Findings, func(other contract.Finding) bool {
				isCause := other.Line == f.Line || f.Field == "" && other.Object == f.Object
				return other.Severity == contract.Error && other.File == f.File && isCause
			})
			if !known {
				v.Bundles[i].Findings = append(v.Bundles[i].Findings, f)
			}
		}
		v.Bundles[i].AskedServer = true
	}
	v.Count()
	return nil
}
