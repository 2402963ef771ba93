// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// place is the position of an expected finding.
type place struct {
	line   int
	object string
}

// mark is a comment in a bad example with the object that has a finding on its line.
var mark = regexp.MustCompile(`# <-(.*)`)

// marked returns the marked places in an example, one for each line.
func marked(manifests string) (places []place) {
	for i, line := range strings.Split(manifests, "\n") {
		match := mark.FindStringSubmatch(line)
		switch {
		case match == nil:
		case isFile(strings.TrimSpace(match[1])):
			places = append(places, place{object: strings.TrimSpace(match[1])})
		default:
			places = append(places, place{i + 1, strings.TrimSpace(match[1])})
		}
	}
	return places
}

// isFile reports whether a mark is about a file as a whole.
func isFile(mark string) bool {
	return mark == contract.MetadataFile || mark == "." || strings.HasSuffix(mark, ".yaml") || strings.HasSuffix(mark, ".yml")
}

// said is a comment in an example about its metadata: "# ocpPlatform: AWS"; "none" is the empty value.
var said = regexp.MustCompile(`(?m)^# ([a-zA-Z]+): *([^ \n]*)`)

// bundleOf returns the bundle of an example.
func bundleOf(manifests string) extractor.Bundle {
	metadata := extractor.Metadata{
		ProviderName: "cluster-api-provider-example", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.0.0",
		OCPPlatform: "AWS", ImageName: "registry.example.com/openshift:example",
	}
	providerType := string(metadata.ProviderType)
	fields := map[string]*string{
		"providerType": &providerType,
		"providerName": &metadata.ProviderName, "providerVersion": &metadata.ProviderVersion,
		"ocpPlatform": &metadata.OCPPlatform, "imageName": &metadata.ImageName,
		"clusterProfile": (*string)(&metadata.ClusterProfile),
	}
	for _, match := range said.FindAllStringSubmatch(manifests, -1) {
		if field := fields[match[1]]; field != nil {
			*field = strings.TrimPrefix(match[2], "none")
		}
	}
	metadata.ProviderType = extractor.ProviderType(providerType)
	return extractor.Bundle{Metadata: metadata, Manifests: []byte(filled(manifests))}
}

// filled returns the text of an example with its long texts expanded.
func filled(example string) string {
	return long.ReplaceAllStringFunc(example, func(text string) string {
		size, _ := strconv.Atoi(long.FindStringSubmatch(text)[1]) // an invalid number gives a short text; the test detects it
		return strings.Repeat("x", size)
	})
}

// long is the placeholder in an example for a text of this many bytes.
var long = regexp.MustCompile(`\(and so on, (\d+) bytes\)`)

// releaseOf returns the release of an example, and the number of lines before each file.
func releaseOf(example string) (release contract.Release, before map[string]int) {
	release, before = contract.Release{Dir: "infrastructure-example/v1.0.0", Files: map[string][]byte{}}, map[string]int{}
	archive := txtar.Parse([]byte(example))
	if match := said.FindSubmatch(archive.Comment); match != nil && string(match[1]) == "release" {
		release.Dir = strings.TrimPrefix(string(match[2]), "none")
	}
	number := bytes.Count(archive.Comment, []byte("\n"))
	for _, file := range archive.Files {
		number++ // the line with its name
		release.Files[file.Name], before[file.Name] = file.Data, number
		number += bytes.Count(file.Data, []byte("\n"))
	}
	return release, before
}

// findingsIn returns the findings of a rule in an example, with the lines of the example.
func findingsIn(rule contract.Rule, example string) contract.Findings {
	if rule.Only != contract.FormRelease {
		return contract.Check(bundleOf(example), []contract.Rule{rule})
	}
	release, before := releaseOf(example)
	_, findings := contract.CheckRelease(release, []contract.Rule{rule})
	for i, f := range findings {
		if f.Line > 0 {
			findings[i].Line += before[f.File]
		}
	}
	return findings
}

func found(rule contract.Rule, manifests string) (places []place) {
	for _, finding := range findingsIn(rule, manifests) {
		at := place{finding.Line, finding.Object}
		if finding.Line == 0 {
			at = place{object: finding.File}
		}
		if !slices.Contains(places, at) {
			places = append(places, at)
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.line, b.line) })
	return places
}

// TestRules_Examples skips the rules that the extractor checks (layout_test.go covers them) and the rules that an
// API server checks (the tests of capi-manifests cover them).
func TestRules_Examples(t *testing.T) {
	for _, rule := range All() {
		if rule.Checker != contract.CheckerFunction {
			continue
		}
		t.Run(rule.ID, func(t *testing.T) {
			example, err := rule.Example()
			if err != nil {
				t.Fatal(err)
			}
			if places := found(rule, example.Good); len(places) > 0 {
				t.Errorf("the good example has findings at %v", places)
			}
			want := marked(example.Bad)
			if len(want) == 0 {
				t.Error("the bad example has no marks")
			}
			if diff := gocmp.Diff(want, found(rule, example.Bad), gocmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("findings in the bad example (-want +got):\n%s", diff)
			}
		})
	}
}

// Package rulebook of capi-manifests tests the other fields.
func TestRules_HaveOneChecker(t *testing.T) {
	for _, rule := range All() {
		if (rule.Check != nil) != (rule.Checker == contract.CheckerFunction) || (rule.Checker == contract.CheckerServer) != strings.HasPrefix(rule.ID, "server/") {
			t.Errorf("%s has no checker, or several: %+v", rule.ID, rule)
		}
	}
}

func TestRules_SourcesAreInFormatPage(t *testing.T) {
	format, err := os.ReadFile("../FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range All() {
		if rule.Source.URL == contract.FormatPage && !strings.Contains(string(format), "\n## "+rule.Source.Section+"\n") {
			t.Errorf("section %[2]q of the source of %[1]s not found in FORMAT.md", rule.ID, rule.Source.Section)
		}
	}
}

func TestMarkdown_UpToDate(t *testing.T) { scenario.Golden(t, "../RULES.md", Markdown()) }
