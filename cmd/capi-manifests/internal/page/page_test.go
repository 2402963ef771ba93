// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/page"
)

// minContrast is the contrast that WCAG 2.2 (1.4.3) requires for text.
const minContrast = 4.5

var (
	darkBlocks        = regexp.MustCompile(`(?s)@media screen and \(prefers-color-scheme: dark\) \{.*?\n\}`)
	colorDeclarations = regexp.MustCompile(`--([a-z-]+): (#[0-9a-f]{6}|var\(--[a-z-]+\));`)
)

// TestLayout_ColorsHaveContrast checks each color of each page, light and dark: text and muted text on each background, and a tone on its
// background and on a card.
func TestLayout_ColorsHaveContrast(t *testing.T) {
	templates, err := filepath.Glob("../*/template/*.html.tmpl")
	if err != nil || len(templates) < 3 {
		t.Fatalf("templates %v, %v", templates, err)
	}
	for _, file := range templates {
		definitions, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		css := page.Layout + string(definitions)
		dark := strings.Join(darkBlocks.FindAllString(css, -1), "")
		light := darkBlocks.ReplaceAllString(css, "")
		for scheme, css := range map[string]string{"light": light, "dark": light + dark} {
			colors, pairs := map[string]string{}, [][2]string{{"text", "page"}, {"text", "card"}, {"muted", "page"}, {"muted", "card"}, {"link", "page"}, {"link", "card"}}
			for _, match := range colorDeclarations.FindAllStringSubmatch(css, -1) {
				colors[match[1]] = match[2]
				if tone, is := strings.CutSuffix(match[1], "-bg"); is && !slices.Contains([]string{"tone", "old", "new"}, tone) {
					pairs = append(pairs, [2]string{tone, match[1]}, [2]string{tone, "card"}, [2]string{"text", match[1]}, [2]string{"muted", match[1]})
				} else if is && tone != "tone" {
					pairs = append(pairs, [2]string{tone, match[1]})
				}
			}
			for _, pair := range pairs {
				if c := contrast(t, colorOf(colors, pair[0]), colorOf(colors, pair[1])); c < minContrast {
					t.Errorf("%s, %s: the contrast of %s on %s is %.2f", file, scheme, pair[0], pair[1], c)
				}
			}
		}
	}
}

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
