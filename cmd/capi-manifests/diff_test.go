// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	xhtml "golang.org/x/net/html"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capi-installer/capi-installer/build/diff"
)

// reportOfEverything is that of testdata/diff/report.txtar, in which nearly everything changed.
func reportOfEverything(t *testing.T) differences {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/diff/report.txtar")
	if err != nil {
		t.Fatal(err)
	}
	return differences{diffSchema, "old/images.json", "new/images.json", diff.Compare(providersIn(t, archive, "a/"), providersIn(t, archive, "b/"))}
}

// providersIn makes a provider of each file in a folder. The first line of the file
// is a comment with its type, version and image.
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
		decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(file.Data), 4096)
		for {
			o := &unstructured.Unstructured{}
			err := decoder.Decode(&o.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			p.Objects = append(p.Objects, o)
		}
		providers = append(providers, p)
	}
	return providers
}

func written(t *testing.T, d differences, format reportFormat, full, color bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := d.write(&out, format, full, color); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestAReportLooksAsItShould compares with testdata/diff/report.*; UPDATE=1 rewrites them.
func TestAReportLooksAsItShould(t *testing.T) {
	d := reportOfEverything(t)
	for file, got := range map[string]string{
		"report.txt": written(t, d, reportText, false, false), "report.full.txt": written(t, d, reportText, true, false),
		"report.json": written(t, d, reportJSON, false, false), "report.md": written(t, d, reportMarkdown, false, false), "report.html": written(t, d, reportHTML, false, false),
	} {
		t.Run(file, func(t *testing.T) {
			path := filepath.Join("testdata", "diff", file)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("(-want +got; UPDATE=1 rewrites):\n%s", diff)
			}
		})
	}
}

func TestTheJSONOfDiffKeepsItsSchema(t *testing.T) {
	schema := compiled(t, "diff.json")
	for name, d := range map[string]differences{"everything": reportOfEverything(t), "nothing": {diffSchema, "a", "b", diff.Compare(nil, nil)}} {
		if err := conforms(t, schema, []byte(written(t, d, reportJSON, false, false))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := conforms(t, schema, []byte(`{"$schema": "x:y", "a": "a", "b": "b", "verdict": {"level": "bad"}, "providers": [], "access": []}`)); err == nil {
		t.Error("the schema takes what is wrong")
	}
}

func TestNoReportHasControlCharacters(t *testing.T) {
	d := reportOfEverything(t)
	d.A, d.B = "a\x1b[31m\u202e\n|", "\x1b[2J"
	d.Access[0].Subject, d.Providers[0].Name = "\x1b[2J", "\x1b[2J"
	for _, format := range []reportFormat{reportText, reportJSON, reportMarkdown, reportHTML} {
		for _, r := range written(t, d, format, true, false) {
			if r != '\n' && r != '\t' && (r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u202e') {
				t.Errorf("%s has the control character %U", format.String(), r)
			}
		}
	}
}

func TestColorsOnATerminalAreTheOnlyDifference(t *testing.T) {
	d := reportOfEverything(t)
	colored := written(t, d, reportText, true, true)
	plain := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(colored, "")
	if plain == colored {
		t.Error("nothing is colored")
	}
	if diff := cmp.Diff(written(t, d, reportText, true, false), plain); diff != "" {
		t.Errorf("(-plain +colored):\n%s", diff)
	}
}

// TestThePageIsWellFormedAndNeedsNothingElse reads the page as a browser would.
func TestThePageIsWellFormedAndNeedsNothingElse(t *testing.T) {
	page := written(t, reportOfEverything(t), reportHTML, true, false)
	ids, links := map[string]bool{}, []string{}
	tokens := xhtml.NewTokenizer(strings.NewReader(page))
	open := []string{}
	for {
		kind := tokens.Next()
		if kind == xhtml.ErrorToken {
			break
		}
		token := tokens.Token()
		switch kind {
		case xhtml.StartTagToken:
			checkTag(t, token)
			for _, a := range token.Attr {
				if a.Key == "id" && ids[a.Val] {
					t.Errorf("the id %s is there twice", a.Val)
				}
				if a.Key == "id" {
					ids[a.Val] = true
				}
				if a.Key == "href" || a.Key == "aria-labelledby" {
					links = append(links, strings.TrimPrefix(a.Val, "#"))
				}
			}
			if token.Data != "meta" && token.Data != "link" {
				open = append(open, token.Data)
			}
		case xhtml.EndTagToken:
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	for _, link := range links {
		if !ids[link] {
			t.Errorf("a link leads to #%s, which is not there", link)
		}
	}
	if len(open) > 0 || len(links) < 5 {
		t.Errorf("left open: %v; %d links", open, len(links))
	}
	for _, landmark := range []string{"<header", "<main", "<footer", `<html lang="en">`, `scope="col"`, `scope="row"`, "<caption", "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(page, landmark) {
			t.Errorf("the page has no %s", landmark)
		}
	}
	if !strings.Contains(page, html.EscapeString("<script>alert(1)</script>")) {
		t.Error("what looks like a script is not shown as text")
	}
}

// checkTag refuses what runs, or is fetched.
func checkTag(t *testing.T, token xhtml.Token) {
	t.Helper()
	if strings.Contains(" script img iframe link object embed video audio form ", " "+token.Data+" ") {
		t.Errorf("the page has a %s", token)
	}
	for _, a := range token.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
			t.Errorf("the page has a %s", token)
		}
	}
}

// TestTheColorsOfThePageCanBeRead computes the contrast of each text with what is
// behind it, in the light and in the dark: at least 4.5, as WCAG 2.2 (1.4.3) asks.
func TestTheColorsOfThePageCanBeRead(t *testing.T) {
	_, dark, found := strings.Cut(htmlTemplate, "prefers-color-scheme: dark")
	if !found {
		t.Fatal("no dark colors")
	}
	dark, _, _ = strings.Cut(dark, "\n}")
	for name, css := range map[string]string{"light": htmlTemplate[:strings.Index(htmlTemplate, "prefers-color-scheme: dark")], "dark": dark} {
		colors := map[string]string{}
		for _, match := range regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(css, -1) {
			colors[match[1]] = match[2]
		}
		pairs := [][2]string{{"text", "page"}, {"text", "card"}, {"muted", "page"}, {"muted", "card"}, {"link", "page"}, {"link", "card"}, {"old", "old-bg"}, {"new", "new-bg"}, {"muted", "breaking-bg"}, {"text", "breaking-bg"}}
		for _, level := range []string{"breaking", "widening", "review", "change", "noise", "same"} {
			pairs = append(pairs, [2]string{level, level + "-bg"}, [2]string{level, "card"}, [2]string{"muted", level + "-bg"})
		}
		for _, pair := range pairs {
			if c := contrast(t, colors[pair[0]], colors[pair[1]]); c < 4.5 {
				t.Errorf("%s: %s on %s has a contrast of %.2f", name, pair[0], pair[1], c)
			}
		}
	}
}

// contrast is the contrast ratio of WCAG.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	luminance := func(color string) float64 {
		n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
		if err != nil {
			t.Fatalf("%q is no color", color)
		}
		channel := func(shift uint) float64 {
			c := float64(n>>shift&0xff) / 255
			if c <= 0.04045 {
				return c / 12.92
			}
			return math.Pow((c+0.055)/1.055, 2.4)
		}
		return 0.2126*channel(16) + 0.7152*channel(8) + 0.0722*channel(0)
	}
	la, lb := luminance(a), luminance(b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func TestAMarkdownReportFitsIntoAComment(t *testing.T) {
	d := reportOfEverything(t)
	one := d.Providers[0]
	d.Providers = nil
	for i := range 40 {
		one.Name = fmt.Sprintf("provider-%d", i)
		d.Providers = append(d.Providers, one)
	}
	got := written(t, d, reportMarkdown, false, false)
	if len(got) > 65_536 || !strings.Contains(got, "no room") || !strings.Contains(got, "provider-39") {
		t.Errorf("%d characters:\n%.300s", len(got), got)
	}
}

func TestWhatMarkdownWouldReadIsText(t *testing.T) {
	for text, want := range map[string]string{
		"a|b":     "`a|b`",
		"`a`":     "`` `a` ``",
		"":        "`  `",
		"a\x1b\n": "`a\ufffd\ufffd`",
	} {
		if got := markdownCode(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got := markdownText("<b>@me_[x](y)|"); got != `\<b\>\@me\_\[x\](y)\|` {
		t.Errorf("got %s", got)
	}
}
