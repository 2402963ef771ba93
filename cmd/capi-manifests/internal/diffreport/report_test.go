// SPDX-License-Identifier: Apache-2.0

package diffreport

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/pagetest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/schematest"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/schema"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// reportOfEverything returns the report of testdata/diff/report.txtar: nearly everything changed.
func reportOfEverything(t *testing.T) Report {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/diff/report.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return New("old/images.json", "new/images.json", providersIn(t, archive, "a/"), providersIn(t, archive, "b/"))
}

// providersIn returns a provider for each file in a folder. The first line of the file is a comment with its type,
// version and image.
func providersIn(t *testing.T, archive *txtar.Archive, folder string) (providers []diff.Provider) {
	t.Helper()
	for _, file := range archive.Files {
		name, inside := strings.CutPrefix(file.Name, folder)
		if !inside {
			continue
		}
		p := diff.Provider{Name: strings.TrimSuffix(name, ".yaml")}
		if _, err := fmt.Sscanf(string(file.Data), "# %s %s %s", &p.Type, &p.Version, &p.Image); err != nil {
			t.Fatal(err)
		}
		objects, err := yamldoc.Objects(file.Data)
		if err != nil {
			t.Fatal(err)
		}
		p.Objects = objects
		providers = append(providers, p)
	}
	return providers
}

func written(t *testing.T, d Report, format Format, full, color bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := d.Write(&out, format, full, color); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestReport_MatchesGoldenFiles compares with testdata/diff/report.*; UPDATE=1 rewrites them.
func TestReport_MatchesGoldenFiles(t *testing.T) {
	d := reportOfEverything(t)
	for file, got := range map[string]string{
		"report.txt": written(t, d, Text, false, false), "report.full.txt": written(t, d, Text, true, false),
		"report.json": written(t, d, JSON, false, false), "report.md": written(t, d, Markdown, false, false), "report.html": written(t, d, HTML, false, false),
	} {
		scenario.Golden(t, "testdata/diff/"+file, got)
	}
}

func TestJSON_ValidatesAgainstTheSchema(t *testing.T) {
	for name, d := range map[string]Report{"everything": reportOfEverything(t), "nothing": New("a", "b", nil, nil)} {
		if err := schematest.Validate(schema.Diff, []byte(written(t, d, JSON, false, false))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := schematest.Validate(schema.Diff, []byte(`{"$schema": "x:y", "a": "a", "b": "b", "verdict": {"bad": 1}, "providers": []}`)); err == nil {
		t.Error("the schema accepts an invalid report")
	}
}

func TestReport_HasNoControlCharacters(t *testing.T) {
	d := reportOfEverything(t)
	d.A, d.B = "a\x1b[31m\u202e\n|", "\x1b[2J"
	d.Providers[0].Name = "\x1b[2J"
	for _, format := range []Format{Text, JSON, Markdown, HTML} {
		pagetest.CheckPrintable(t, strings.ReplaceAll(written(t, d, format, true, false), "\t", " "))
	}
}

func TestText_ColorChangesNothingElse(t *testing.T) {
	d := reportOfEverything(t)
	colored := written(t, d, Text, true, true)
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(colored, "")
	if plain == colored {
		t.Error("the colored report has no color")
	}
	if diff := cmp.Diff(written(t, d, Text, true, false), plain); diff != "" {
		t.Errorf("(-plain +colored):\n%s", diff)
	}
}

// TestHTML_IsWellFormedAndSelfContained parses the page as a browser does.
func TestHTML_IsWellFormedAndSelfContained(t *testing.T) {
	page := written(t, reportOfEverything(t), HTML, true, false)
	if links := pagetest.Check(t, page); links < 5 {
		t.Errorf("the page has %d links", links)
	}
	for _, landmark := range []string{"<header", "<main", "<footer", `<html lang="en">`, `scope="col"`, `scope="row"`, "<caption", "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(page, landmark) {
			t.Errorf("%s is missing in the page", landmark)
		}
	}
	if !strings.Contains(page, html.EscapeString("<script>alert(1)</script>")) {
		t.Error("the script in a value is not escaped")
	}
}

func TestMarkdown_FitsIntoAComment(t *testing.T) {
	d := reportOfEverything(t)
	one := d.Providers[0]
	d.Providers = nil
	for i := range 40 {
		one.Name = fmt.Sprintf("provider-%d", i)
		d.Providers = append(d.Providers, one)
	}
	got := written(t, d, Markdown, false, false)
	if len(got) > 65_536 || !strings.Contains(got, "Too long") || !strings.Contains(got, "provider-39") {
		t.Errorf("%d characters:\n%.300s", len(got), got)
	}
}

func TestMarkdown_EscapesText(t *testing.T) {
	for text, want := range map[string]string{
		"a|b":      "`a|b`",
		"`a`":      "`` `a` ``",
		"":         "`  `",
		"a\x1b\nb": "`a\ufffd; b`",
	} {
		if got := markdownCode(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := markdownText("<b>@me_[x](y)|"); got != `\<b\>\@me\_\[x\](y)\|` {
		t.Errorf("got %s", got)
	}
}
