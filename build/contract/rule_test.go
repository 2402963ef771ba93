// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"cmp"
	"flag"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/extractor"
)

// place is where a finding is expected.
type place struct {
	line   int
	object string
}

// mark is a comment of a bad example that says which object has a finding on its line.
var mark = regexp.MustCompile(`# <-(.*)`)

// marked returns the places that are marked in an example, a place for each line.
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
	return mark == MetadataFile || mark == "." || strings.HasSuffix(mark, ".yaml") || strings.HasSuffix(mark, ".yml")
}

// said is a comment of an example about its metadata: "# ocpPlatform: AWS", or "none" for nothing.
var said = regexp.MustCompile(`(?m)^# ([a-zA-Z]+): *([^ \n]*)`)

// bundleOf is the bundle that an example stands for.
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

// filled is the text of an example with the long texts in it.
func filled(example string) string {
	return long.ReplaceAllStringFunc(example, func(text string) string {
		size, _ := strconv.Atoi(long.FindStringSubmatch(text)[1]) // a number that is too large makes a short text, which the test notices
		return strings.Repeat("x", size)
	})
}

// long stands in an example for a text of so many bytes.
var long = regexp.MustCompile(`\(and so on, (\d+) bytes\)`)

// releaseOf is the release that an example stands for, and how many lines are before each file.
func releaseOf(example string) (release Release, before map[string]int) {
	release, before = Release{Dir: "infrastructure-example/v1.0.0", Files: map[string][]byte{}}, map[string]int{}
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

// findingsIn are those of a rule in an example, with the lines of the example.
func findingsIn(rule Rule, example string) []Finding {
	if rule.Only != FormRelease {
		return rule.findings(readBundle(bundleOf(example)))
	}
	release, before := releaseOf(example)
	findings := checkComponents(readRelease(release), []Rule{rule})
	for i, f := range findings {
		if f.Line > 0 {
			findings[i].Line += before[f.File]
		}
	}
	return findings
}

func found(rule Rule, manifests string) (places []place) {
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

// TestRules_Examples leaves out what keeps a bundle from being read,
// for which there is the like in layout_test.go, and what an API server has to be asked for: capi-manifests, which does, has it.
func TestRules_Examples(t *testing.T) {
	for _, rule := range Rules() {
		if rule.Checker != CheckerFunction {
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
				t.Error("nothing is marked in the bad example")
			}
			if diff := gocmp.Diff(want, found(rule, example.Bad), gocmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("findings in the bad example (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExamples_BelongToRules(t *testing.T) {
	ids := map[string]bool{}
	for _, rule := range Rules() {
		ids[rule.ID] = true
	}
	err := fs.WalkDir(examples, "examples", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !ids[strings.TrimPrefix(path.Dir(name), "examples/")] {
			t.Errorf("%s is the example of no rule", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRules_Complete(t *testing.T) {
	id, seen := regexp.MustCompile(`^[a-z][a-z0-9-]+/[a-z0-9-]+$`), map[string]bool{}
	for _, rule := range Rules() {
		if !id.MatchString(rule.ID) || seen[rule.ID] {
			t.Errorf("the ID %q is wrong or is there twice", rule.ID)
		}
		seen[rule.ID] = true
		if !slices.Contains(Severities(), rule.Severity) || rule.Source.Document == "" || rule.Source.Section == "" || rule.Source.URL == "" || (rule.Check != nil) != (rule.Checker == CheckerFunction) || (rule.Checker == CheckerServer) != strings.HasPrefix(rule.ID, "server/") {
			t.Errorf("%s is not complete: %+v", rule.ID, rule)
		}
		for _, text := range []string{rule.Why, rule.Fix} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is no sentence", rule.ID, text)
			}
		}
	}
}

func TestRules_SourcesAreInFormatPage(t *testing.T) {
	format, err := os.ReadFile("FORMAT.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range Rules() {
		if rule.Source.URL == formatPage && !strings.Contains(string(format), "\n## "+rule.Source.Section+"\n") {
			t.Errorf("%s comes from the section %q, which FORMAT.md does not have", rule.ID, rule.Source.Section)
		}
	}
}

var update = flag.Bool("update", false, "rewrite RULES.md")

func TestMarkdown_UpToDate(t *testing.T) {
	if *update {
		if err := os.WriteFile("RULES.md", []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	written, err := os.ReadFile("RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(Markdown(), string(written)); diff != "" {
		t.Errorf("RULES.md is outdated; run go generate (-rules +file):\n%s", diff)
	}
}
