// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/build/contract"
)

func TestText_RepeatedFindingsAreOneWithACount(t *testing.T) {
	var all []contract.Finding
	for i := range 5 {
		all = append(all, contract.Finding{File: "m.yaml", Line: i + 1, Rule: "a/selector", Severity: contract.Warning, Object: fmt.Sprint("Webhook ", i), Message: "no selector"})
	}
	for i := range maxRepeated {
		all = append(all, contract.Finding{File: "m.yaml", Rule: "a/other", Severity: contract.Error, Object: fmt.Sprint("Service ", i), Message: "no port"})
	}
	report := Report{Bundles: []Bundle{{Findings: all}}}
	text := string(report.Write(Text, false))
	if !strings.Contains(text, "m.yaml:1: warning: Webhook 0: no selector (and 4 more) [a/selector]\n") || strings.Count(text, "[a/selector]") != 1 {
		t.Errorf("repeated findings are not merged:\n%s", text)
	}
	if strings.Count(text, "[a/other]") != maxRepeated {
		t.Errorf("%d findings are merged:\n%s", maxRepeated, text)
	}
	if github := string(report.Write(GitHub, false)); strings.Count(github, "::warning ") != 1 || !strings.Contains(github, "no selector (and 4 more)") {
		t.Errorf("annotations are not merged:\n%s", github)
	}
}
