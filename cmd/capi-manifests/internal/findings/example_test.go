// SPDX-License-Identifier: Apache-2.0

package findings_test

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
)

func ExampleReport_Write() {
	report := findings.Report{Bundles: []findings.Bundle{{Findings: []contract.Finding{{
		File: "capi-manifests/manifests.yaml", Line: 7, Rule: "installer/no-secret", Severity: contract.Error,
		Object: "Secret capi-system/token", Message: "bundles must not contain Secrets", Fix: "Remove the Secret.",
	}}}}}
	fmt.Printf("%s", report.Write(findings.Text, false))
	// Output:
	// capi-manifests/manifests.yaml:7: error: Secret capi-system/token: bundles must not contain Secrets [installer/no-secret]
	//
	// installer/no-secret
	//     Remove the Secret.
}

func ExampleSummary() {
	fmt.Println(findings.Summary(map[contract.Severity]int{contract.Error: 2, contract.Warning: 1}, 0))
	fmt.Println(findings.Summary(nil, 120))
	// Output:
	// 2 errors, 1 warning
	// no findings, 120 rules checked
}
