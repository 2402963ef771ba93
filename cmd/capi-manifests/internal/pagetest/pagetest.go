// SPDX-License-Identifier: Apache-2.0

// Package pagetest checks the HTML pages and other outputs of capi-manifests, for tests.
package pagetest

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

// Check parses a page as a browser does. It fails the test if the page is not
// well-formed, loads files, runs scripts, repeats an ID, or links to a missing one.
// It returns the number of links.
func Check(t *testing.T, text string) (links int) {
	t.Helper()
	ids, targets, open := map[string]bool{}, []string{}, []string{}
	tokens := html.NewTokenizer(strings.NewReader(text))
	for kind := tokens.Next(); kind != html.ErrorToken; kind = tokens.Next() {
		token := tokens.Token()
		if kind == html.StartTagToken {
			checkTag(t, token)
			targets = append(targets, references(t, token, ids)...)
			if token.Data != "meta" && token.Data != "link" {
				open = append(open, token.Data)
			}
		}
		if kind == html.EndTagToken {
			if len(open) == 0 || open[len(open)-1] != token.Data {
				t.Fatalf("</%s> closes %v", token.Data, open)
			}
			open = open[:len(open)-1]
		}
	}
	if len(open) > 0 {
		t.Errorf("not closed: %v", open)
	}
	for _, target := range targets {
		if !ids[target] {
			t.Errorf("the target #%s of a link was not found", target)
		}
	}
	return len(targets)
}

// CheckPrintable fails for control characters, other than line breaks, and for those that change the direction of text.
func CheckPrintable(t *testing.T, text string) {
	t.Helper()
	if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && (r < ' ' || 0x7f <= r && r < 0xa0 || r == '\u202e') }); at >= 0 {
		t.Errorf("control character at %q", text[at:min(len(text), at+20)])
	}
}

// references adds the ID of a tag to ids and returns the IDs that the tag refers to.
func references(t *testing.T, token html.Token, ids map[string]bool) (targets []string) {
	t.Helper()
	for _, a := range token.Attr {
		switch a.Key {
		case "id":
			if ids[a.Val] {
				t.Errorf("the ID %s is repeated", a.Val)
			}
			ids[a.Val] = true
		case "href", "aria-labelledby":
			targets = append(targets, strings.TrimPrefix(a.Val, "#"))
		}
	}
	return targets
}

// checkTag rejects tags and attributes that run code or load a file.
func checkTag(t *testing.T, token html.Token) {
	t.Helper()
	if slices.Contains([]string{"script", "img", "iframe", "link", "object", "embed", "video", "audio", "form"}, token.Data) {
		t.Errorf("the page has a %s", token)
	}
	for _, a := range token.Attr {
		if strings.HasPrefix(a.Key, "on") || a.Key == "src" || a.Key == "style" || a.Key == "href" && !strings.HasPrefix(a.Val, "#") {
			t.Errorf("the page has a %s", token)
		}
	}
}

// minContrast is the contrast that WCAG 2.2 (1.4.3) requires for text.
const minContrast = 4.5

// CheckContrast fails the test if a pair of text color and background color, given
// as names of CSS variables, has too little contrast in the light or in the dark
// colors of a page with the templates of definitions.
func CheckContrast(t *testing.T, definitions string, pairs [][2]string) {
	t.Helper()
	css := page.Layout + definitions
	dark := strings.Join(darkBlocks.FindAllString(css, -1), "")
	light := darkBlocks.ReplaceAllString(css, "")
	for scheme, css := range map[string]string{"light": light, "dark": light + dark} {
		colors := map[string]string{}
		for _, match := range colorDeclarations.FindAllStringSubmatch(css, -1) {
			colors[match[1]] = match[2]
		}
		for _, pair := range pairs {
			if c := contrast(t, colorOf(colors, pair[0]), colorOf(colors, pair[1])); c < minContrast {
				t.Errorf("%s: the contrast of %s on %s is %.2f", scheme, pair[0], pair[1], c)
			}
		}
	}
}

var (
	darkBlocks        = regexp.MustCompile(`(?s)@media screen and \(prefers-color-scheme: dark\) \{.*?\n\}`)
	colorDeclarations = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6}|var\(--[a-z-]+\));`)
)

// colorOf returns the color of a variable, also if it refers to another one.
func colorOf(colors map[string]string, name string) string {
	if other, isOther := strings.CutPrefix(colors[name], "var(--"); isOther {
		return colors[strings.TrimSuffix(other, ")")]
	}
	return colors[name]
}

// contrast returns the contrast ratio defined by WCAG.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	la, lb := luminance(t, a), luminance(t, b)
	return (max(la, lb) + 0.05) / (min(la, lb) + 0.05)
}

func luminance(t *testing.T, color string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	if err != nil {
		t.Fatalf("invalid color %q", color)
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
