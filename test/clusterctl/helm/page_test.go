// SPDX-License-Identifier: Apache-2.0

package helm_test

import (
	"os"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"sigs.k8s.io/yaml"
)

// TestPage_Values checks the values of docs/install.md with the chart's schema and templates.
func TestPage_Values(t *testing.T) {
	page, err := os.ReadFile("../../../docs/install.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "### With Helm")
	_, text, found := strings.Cut(text, "```yaml\n")
	text, _, closed := strings.Cut(text, "```")
	if !found || !closed {
		t.Fatal("docs/install.md has no values")
	}
	var documented map[string]any
	must(t, yaml.UnmarshalStrict([]byte(text), &documented))
	lint := action.NewLint()
	if result := lint.Run([]string{chartDir}, documented); len(result.Errors) > 0 {
		t.Errorf("%v\n%s", result.Errors, text)
	}
	documented["platforms"] = "None"
	if result := lint.Run([]string{chartDir}, documented); len(result.Errors) == 0 {
		t.Error("a text for the list of platforms is accepted")
	}
}
