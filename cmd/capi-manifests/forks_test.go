// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
)

// The findings about objects of a fork are at lines of files in its repository.
func TestValidate_FindingsNameSourcesOfFork(t *testing.T) {
	folder := os.Getenv("FORKS")
	if folder == "" {
		t.Skip("needs forks of providers in FORKS")
	}
	file := filepath.Join(folder, "cluster-api-provider-nutanix", "openshift", "kustomization.yaml")
	code, stdout, stderr := run(t, "validate", file, "--platform", "Nutanix", "-o", "json")
	var report findings.Report
	if err := json.Unmarshal([]byte(stdout), &report); err != nil {
		t.Fatalf("exit code %d: %v\n%s", code, err, stderr)
	}
	located, all := 0, 0
	for _, finding := range report.Bundles[0].Findings {
		if finding.Object == "" {
			continue
		}
		all++
		if finding.Line == 0 {
			t.Logf("finding without line: %s %s", finding.Object, finding.Field)
			continue
		}
		content, err := os.ReadFile(finding.File)
		if err != nil {
			t.Fatal(err)
		}
		if finding.Line > strings.Count(string(content), "\n")+1 {
			t.Errorf("%s has no line %d", finding.File, finding.Line)
		}
		located++
	}
	t.Logf("%d of %d findings have a line", located, all)
	if located*2 < all || located == 0 {
		t.Errorf("%d of %d findings have a line, want at least half", located, all)
	}
}
