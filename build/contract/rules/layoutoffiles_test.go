// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// ruleID is the line that gives a rule its ID: a literal, or a constant with a comment that repeats it.
var ruleID = regexp.MustCompile(`(?m)^\tID: +"([a-z-]+)/`)

// TestRules_InFileOfTheme checks that the rule "crd/valid" is in rule_crd.go.
func TestRules_InFileOfTheme(t *testing.T) {
	themes := map[string]bool{}
	for _, rule := range All() {
		theme, _, _ := strings.Cut(rule.ID, "/")
		themes[theme] = true
	}
	for theme := range themes {
		file := "rule_" + strings.ReplaceAll(theme, "-", "_") + ".go"
		source, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("the rules of %s: %v", theme, err)
		}
		for _, match := range ruleID.FindAllSubmatch(source, -1) {
			if string(match[1]) != theme {
				t.Errorf("%s has a rule of the theme %s", file, match[1])
			}
		}
	}
}
