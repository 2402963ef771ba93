// SPDX-License-Identifier: Apache-2.0

package rulebook

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
)

func TestRules_Complete(t *testing.T) {
	id, seen := regexp.MustCompile(`^[a-z][a-z0-9-]+/[a-z0-9-]+$`), map[string]bool{}
	for _, rule := range rules.All() {
		if !id.MatchString(rule.ID) || seen[rule.ID] {
			t.Errorf("the ID %q is invalid or a duplicate", rule.ID)
		}
		seen[rule.ID] = true
		if !slices.Contains(contract.Severities(), rule.Severity) || rule.Source.Document == "" || rule.Source.Section == "" || rule.Source.URL == "" {
			t.Errorf("incomplete rule %s: %+v", rule.ID, rule)
		}
		for _, text := range []string{rule.Why, rule.Fix} {
			if !strings.HasSuffix(text, ".") {
				t.Errorf("%s: %q is not a sentence", rule.ID, text)
			}
		}
	}
}

func TestExamples_BelongToRules(t *testing.T) {
	count := 0
	err := fs.WalkDir(os.DirFS("../../../../build/contract/rules/examples"), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if count++; !slices.Contains(IDs(), strings.TrimSuffix(name, ".txtar")) {
			t.Errorf("the rule of the example %s does not exist", name)
		}
		return nil
	})
	if err != nil || count == 0 {
		t.Errorf("%d examples, error %v", count, err)
	}
}
